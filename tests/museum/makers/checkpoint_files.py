"""Checkpoints as this release of a library saves them, with random weights and the outputs that its models compute.

    python checkpoint_files.py OUT.zip transformers|timm|lightning|training [TEXT]

TEXT limits the models to those whose names contain it. `transformers` writes folders with config.json. The others write
weights, with the factory that they need among the options of the conversion; `training` writes what loops of PyTorch
alone save, with optimizers, averages and whole modules beside the weights.
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import argparse
import os
import sys
from collections import OrderedDict

import numpy as np
import torch
from archive import Archive

SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}


def random_picture(*shape):
    """Return a picture of random numbers."""
    return torch.from_numpy(np.random.RandomState(0).randn(*shape).astype("float32"))


def language_models():
    """Return models of Hugging Face by name: the class, the class of its configuration, and what it is made of."""
    two_layers = {"vocab_size": 99, "n_positions": 64, "n_ctx": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    distilled = {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}
    wide = {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
    return {
        "bert": ("BertModel", "BertConfig", SMALL),
        "bert_labels": ("BertForSequenceClassification", "BertConfig", dict(SMALL, num_labels=3)),
        "bert_masked": ("BertForMaskedLM", "BertConfig", SMALL),
        "bert_tokens": ("BertForTokenClassification", "BertConfig", dict(SMALL, num_labels=5)),
        "roberta": ("RobertaForSequenceClassification", "RobertaConfig", dict(SMALL, type_vocab_size=1)),
        "electra": ("ElectraForSequenceClassification", "ElectraConfig", dict(SMALL, embedding_size=32)),
        "albert": ("AlbertModel", "AlbertConfig", dict(SMALL, embedding_size=16)),
        "distilbert": ("DistilBertForSequenceClassification", "DistilBertConfig", distilled),
        "gpt2": ("GPT2LMHeadModel", "GPT2Config", two_layers),
        "t5_encoder": ("T5EncoderModel", "T5Config", wide),
        "vit": (
            "ViTForImageClassification",
            "ViTConfig",
            dict(SMALL, image_size=32, patch_size=8, num_labels=3),
        ),
        "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL),
    }


def transformers(archive, only):
    """Add folders of Hugging Face's transformers."""
    import transformers as library

    def write(name, kind, config, values):
        torch.manual_seed(0)
        model = getattr(library, kind)(getattr(library, config)(**values)).eval()
        if name == "vit":
            given = {"pixel_values": random_picture(2, 3, 32, 32)}
        else:
            steps = torch.from_numpy(np.random.RandomState(0).randint(3, 99, (2, 7)))
            given = {"input_ids": steps, "attention_mask": torch.ones_like(steps)}
            if "token_type_ids" in model.forward.__code__.co_varnames and values.get("type_vocab_size") == 2:
                given["token_type_ids"] = torch.zeros_like(steps)
        with torch.no_grad():
            made = model(**given)
        found = made.to_tuple() if hasattr(made, "to_tuple") else made
        computed = [value.numpy() for value in found if isinstance(value, torch.Tensor)]
        folder = archive.path(name + ".huggingface")
        model.save_pretrained(folder)
        archive.file(folder)
        options = {} if name == "vit" else {"inputs": [f"{key}:int64[2,7]" for key in given]}
        archive.arrays(name, [value.numpy() for value in given.values()], computed, **options)

    for name, row in language_models().items():
        if only in name:
            archive.attempt(name, lambda name=name, row=row: write(name, *row))


def add(archive, stem, suffix, save, module, x, **options):
    """Add a checkpoint that `save(path)` writes."""
    path = archive.path(stem + suffix)
    save(path)
    archive.file(path)
    with torch.no_grad():
        archive.arrays(stem, [x.numpy()], [module(x).numpy()], **options)


def timm(archive, only):
    """Add checkpoints of timm's own training script."""
    import timm as library

    names = ("lcnet_050", "mobilenetv3_small_050", "mnasnet_small", "tinynet_e", "ghostnet_050", "semnasnet_050")
    for name in (*names, "efficientnet_lite0", "mobilenetv3_small_100", "regnetx_002", "levit_128s", "pit_ti_224"):

        def write(name=name):
            torch.manual_seed(0)
            arguments = {"model_name": name, "num_classes": 3}
            size = 224 if name in ("levit_128s", "pit_ti_224") else 64
            module, x = library.create_model(**arguments).eval(), random_picture(1, 3, size, size)
            options = {"model": "timm:create_model", "model_args": arguments}
            state = module.state_dict()
            add(archive, name, ".pth", lambda path: torch.save(state, path), module, x, **options)
            whole = {
                "epoch": 3,
                "arch": name,
                "state_dict": OrderedDict(("module." + key, value) for key, value in state.items()),
                "optimizer": torch.optim.SGD(module.parameters(), 0.1, 0.9).state_dict(),
                "version": 2,
                "args": argparse.Namespace(model=name, lr=0.1),
                "metric": np.float64(71.5),
            }
            add(archive, name + "_best", ".pth", lambda path: torch.save(whole, path), module, x, **options)

        if only in name:
            archive.attempt(name, write)


def lightning(archive, only):
    """Add checkpoints of Lightning's trainer."""
    try:
        import lightning.pytorch as library
    except ImportError:
        import pytorch_lightning as library
    import timm as networks

    arguments = {"model_name": "mnasnet_small", "num_classes": 3}

    class Learner(library.LightningModule):
        def __init__(self, rate=0.1, names=("a", "b")):
            super(Learner, self).__init__()  # noqa: UP008
            self.save_hyperparameters()
            self.model = networks.create_model(**arguments)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    def write():
        torch.manual_seed(0)
        learner = Learner()
        pictures, labels = random_picture(4, 3, 64, 64), torch.tensor([0, 1, 2, 0])
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(pictures, labels), batch_size=2)
        trainer = library.Trainer(max_epochs=1, logger=False)
        trainer.fit(learner, data)
        options = {"model": "timm:create_model", "model_args": arguments}
        module = learner.model.eval()
        add(archive, "trained", ".ckpt", trainer.save_checkpoint, module, random_picture(2, 3, 64, 64), **options)

    archive.attempt("trained", write)


def training(archive, only):
    """Add what training loops save: a module among other things, as YOLO's do, averages, and data of other classes."""
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3)).eval()
    x = random_picture(2, 3, 6, 6)
    beside = {"epoch": -1, "best_fitness": None, "train_args": {"lr0": 0.01}, "date": "2024-01-01", "version": "8.0"}
    rows = {
        "module_and_data": dict(beside, model=net, ema=None, updates=None, optimizer=None),
        "average": dict(beside, model=None, ema=net, updates=3),
        "data_parallel": nn.DataParallel(net),
    }
    for name, content in rows.items():
        if only in name:
            row = (archive, name, ".pt", lambda path, content=content: torch.save(content, path), net, x)
            archive.attempt(name, lambda row=row: add(*row))


def main(target, library, only=""):
    """Write the archive."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    archive = Archive(target)
    torch.set_num_threads(1)
    {"transformers": transformers, "timm": timm, "lightning": lightning, "training": training}[library](archive, only)
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
