"""Modules, TorchScript, mobile archives, exported programs and ONNX files of this release of PyTorch, with its outputs.

python pytorch_files.py OUT.zip
"""

from __future__ import print_function  # noqa: UP010 (Python 3.6 has no `annotations`)

import sys

import numpy as np
import torch
from archive import Archive
from torch import nn

RELEASE = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


class Scripted(nn.Module):
    """A module with a loop and a decision on data, which only scripting keeps."""

    def __init__(self):
        super(Scripted, self).__init__()  # noqa: UP008 (PyTorch 1.0 scripts no other form)
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.linear(x))
        if bool(x.sum() > 0):
            x = x * 2
        return x


class Sequence(nn.Module):
    """A recurrent network of which only the sequence is returned."""

    def __init__(self, kind):
        super(Sequence, self).__init__()  # noqa: UP008
        self.cells = kind(4, 3, num_layers=2, bidirectional=True, batch_first=True)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.cells(x)[0])


class Indexing(nn.Module):
    """Views, slices, masks and reductions, as programs write them between layers."""

    def forward(self, x):
        y = x.view(x.size(0), 2, -1).permute(0, 2, 1).contiguous()
        y = torch.cat([y[:, :1], y[:, 1:] * 2], 1)
        y = y.masked_fill(y < -1, 0.5).clamp(max=1.5)
        return y.mean(dim=1) + y.max(dim=1)[0] + torch.chunk(x, 3, 1)[0]


class Embedded(nn.Module):
    """An embedding bag and a normalization, of integers."""

    def __init__(self):
        super(Embedded, self).__init__()  # noqa: UP008
        self.table, self.last = nn.Embedding(11, 4), nn.LayerNorm(4)

    def forward(self, x):
        return self.last(self.table(x)).sum(1)


class Branches(nn.Module):
    """A trunk whose pieces are added and concatenated, through functional modules once it is quantized."""

    def __init__(self, functional):
        super(Branches, self).__init__()  # noqa: UP008
        self.first, self.normal, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
        self.second, self.pool, self.last = nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 3)
        self.add, self.cat = functional(), functional()

    def forward(self, x):
        x = self.relu(self.normal(self.first(x)))
        x = self.cat.cat([self.add.add(self.second(x), x), x], 1)
        return self.last(torch.flatten(self.pool(x), 1))


class Attending(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self):
        super(Attending, self).__init__()  # noqa: UP008
        self.attention = nn.MultiheadAttention(6, 2)

    def forward(self, x):
        return self.attention(x, x, x)[0]


def networks():
    """Return the networks by name: what makes them, and an input."""

    def picture(*shape):
        return torch.from_numpy(np.random.RandomState(sum(shape)).randn(*shape).astype("float32"))

    return {
        "plain": (
            lambda: nn.Sequential(
                nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)
            ),
            picture(2, 3, 9, 8),
        ),
        "grouped": (
            lambda: nn.Sequential(
                nn.Conv2d(4, 4, 3, groups=4, dilation=2), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 3, 1)
            ),
            picture(2, 4, 9, 8),
        ),
        "transposed": (
            lambda: nn.Sequential(
                nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
                nn.InstanceNorm2d(4, affine=True),
                nn.LeakyReLU(0.1),
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            ),
            picture(2, 3, 4, 5),
        ),
        "shuffled": (
            lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.PixelShuffle(2), nn.PReLU(2), nn.ZeroPad2d(1)),
            picture(2, 3, 5, 6),
        ),
        "conv1d": (
            lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.ELU(), nn.AvgPool1d(2), nn.GroupNorm(2, 4)),
            picture(2, 3, 9),
        ),
        "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.Softplus(), nn.MaxPool3d(2)), picture(2, 2, 5, 5, 4)),
        "mlp": (
            lambda: nn.Sequential(
                nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Sigmoid(), nn.Dropout(), nn.Linear(8, 3), nn.LogSoftmax(dim=1)
            ),
            picture(3, 6),
        ),
        "scripted": (Scripted, picture(3, 6)),
        "lstm": (lambda: Sequence(nn.LSTM), picture(2, 5, 4)),
        "gru": (lambda: Sequence(nn.GRU), picture(2, 5, 4)),
        "rnn": (lambda: Sequence(nn.RNN), picture(2, 5, 4)),
        "indexing": (Indexing, picture(3, 6)),
        "embedded": (Embedded, torch.from_numpy(np.arange(8).reshape(2, 4))),
        "attending": (Attending, picture(4, 2, 6)),
        "encoder": (lambda: nn.TransformerEncoderLayer(6, 2, 8), picture(4, 2, 6)),
    }


def quantized():
    """Return the networks that quantization of modules makes, by name: what makes them, and an input."""
    try:
        from torch.ao import quantization
    except ImportError:
        from torch import quantization

    x = networks()["plain"][1]

    class Quantized(nn.Module):
        def __init__(self, inside):
            super(Quantized, self).__init__()  # noqa: UP008
            self.quantized, self.back = quantization.QuantStub(), quantization.DeQuantStub()
            self.inside = inside

        def forward(self, x):
            return self.back(self.inside(self.quantized(x)))

    def static(inside, fused, backend="fbgemm"):
        torch.backends.quantized.engine = backend
        module = Quantized(inside).eval()
        module.qconfig = quantization.get_default_qconfig(backend)
        module.inside = quantization.fuse_modules(module.inside, fused)
        prepared = quantization.prepare(module)
        prepared(x)
        return quantization.convert(prepared)

    def trained():
        torch.backends.quantized.engine = "fbgemm"
        module = Quantized(Branches(nn.quantized.FloatFunctional)).train()
        module.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        module.inside = fuse_trained(module.inside, [["first", "normal", "relu"]])
        prepared = quantization.prepare_qat(module)
        for _ in range(3):
            prepared(x).sum().backward()
        return quantization.convert(prepared.eval())

    fuse_trained = getattr(quantization, "fuse_modules_qat", quantization.fuse_modules)

    def fx():
        torch.backends.quantized.engine = "fbgemm"
        return through_fx(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval(), x)

    def fx_branches():
        torch.backends.quantized.engine = "fbgemm"
        return through_fx(BranchesOfFunctions().eval(), x)

    def dynamic(module, kinds):
        torch.backends.quantized.engine = "fbgemm"
        return quantization.quantize_dynamic(module, kinds)

    def plain():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

    table, mlp = networks(), networks()["mlp"][1]
    return {
        "quantized_static": (lambda: static(plain(), [["0", "1"]]), x),
        "quantized_qnnpack": (lambda: static(plain(), [["0", "1"]], "qnnpack"), x),
        "quantized_branches": (
            lambda: static(Branches(nn.quantized.FloatFunctional), [["first", "normal", "relu"]]),
            x,
        ),
        "quantized_trained": (trained, x),
        "quantized_fx": (fx, x),
        "quantized_fx_branches": (fx_branches, x),
        "quantized_dynamic": (
            lambda: dynamic(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), {nn.Linear}),
            mlp,
        ),
        "quantized_lstm": (lambda: dynamic(Sequence(nn.LSTM), {nn.LSTM, nn.Linear}), table["lstm"][1]),
        "quantized_gru": (lambda: dynamic(Sequence(nn.GRU), {nn.GRU, nn.Linear}), table["gru"][1]),
    }


class BranchesOfFunctions(nn.Module):
    """The trunk of `Branches` as a module that torch.fx traces."""

    def __init__(self):
        super(BranchesOfFunctions, self).__init__()  # noqa: UP008
        self.first, self.normal, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
        self.second, self.pool, self.last = nn.Conv2d(4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 3)

    def forward(self, x):
        x = self.relu(self.normal(self.first(x)))
        x = torch.cat([self.second(x) + x, x], 1)
        return self.last(torch.flatten(self.pool(x), 1))


def through_fx(module, x):
    """Return a module that torch.fx has quantized."""
    from torch.quantization import get_default_qconfig, quantize_fx

    configured = {"": get_default_qconfig("fbgemm")}
    if RELEASE >= (1, 13):
        from torch.ao.quantization import get_default_qconfig_mapping

        configured = get_default_qconfig_mapping("fbgemm")
    prepared = quantize_fx.prepare_fx(module, configured, *([(x,)] if RELEASE >= (1, 13) else []))
    prepared(x)
    return quantize_fx.convert_fx(prepared)


def through_export(module, x):
    """Return a module that PT2E quantization has quantized."""
    from torch.ao.quantization import quantize_pt2e
    from torch.ao.quantization.quantizer import xnnpack_quantizer as rules

    if RELEASE >= (2, 5):
        captured = torch.export.export_for_training(module, (x,)).module()
    else:
        from torch._export import capture_pre_autograd_graph

        captured = capture_pre_autograd_graph(module, (x,))
    quantizer = rules.XNNPACKQuantizer().set_global(rules.get_symmetric_quantization_config())
    prepared = quantize_pt2e.prepare_pt2e(captured, quantizer)
    prepared(x)
    return quantize_pt2e.convert_pt2e(prepared)


def write(archive, name, make, x):
    """Add a network in all ways in which this release saves it."""
    torch.manual_seed(0)
    module = make()
    for kind, array in module.named_buffers() if "quantized" not in name else ():
        if kind.endswith(("running_mean", "running_var")):
            array.data.uniform_(0.5, 1.5)
    module.eval()
    with torch.no_grad():

        def add(stem, suffix, save, run=module, **options):
            def make_file():
                path = archive.path(stem + suffix)
                save(path)
                archive.file(path)
                computed = run(x)
                computed = computed[0] if isinstance(computed, tuple) else computed  # of PT2E in PyTorch 2.1
                archive.arrays(stem, [x.numpy()], [computed.numpy()], **options)

            archive.attempt(stem + suffix, make_file)

        of_library = type(module).__module__ != "__main__" and not any("Float" in str(p) for p in module.modules())
        if of_library and "encoder" not in name:
            options = {"trust": True} if "quantized" in name else {}
            add("whole_" + name, ".pt", lambda path: torch.save(module, path), **options)
            if RELEASE >= (1, 6) and name == "plain":
                old = {"_use_new_zipfile_serialization": False}
                add("legacy_" + name, ".pt", lambda path: torch.save(module, path, **old))
        write_torchscript(add, name, module, x)
        if RELEASE >= (1, 13) or "quantized" not in name:
            for opset in opsets() if "quantized" not in name else opsets()[1:]:
                add(f"onnx{opset}_{name}", ".onnx", lambda path, opset=opset: export(module, x, path, opset))
        if "quantized" not in name:
            write_programs(add, name, module, x)


def write_torchscript(add, name, module, x):
    """Add TorchScript, and archives for phones."""
    if name != "scripted":
        add("traced_" + name, ".pt", lambda path: torch.jit.trace(module, x).save(path))
    if RELEASE >= (1, 2) or name == "scripted":
        add("scripted_" + name, ".pt", lambda path: torch.jit.script(module).save(path))
    if RELEASE >= (1, 7):
        add("mobile_" + name, ".ptl", lambda path: torch.jit.script(module)._save_for_lite_interpreter(path))
    if RELEASE >= (1, 8):
        add("frozen_" + name, ".pt", lambda path: torch.jit.freeze(torch.jit.script(module)).save(path))
    if RELEASE >= (1, 13):
        from torch.utils.mobile_optimizer import optimize_for_mobile

        def save_optimized(path):
            optimize_for_mobile(torch.jit.script(module))._save_for_lite_interpreter(path)

        add("optimized_" + name, ".ptl", save_optimized)
        if name in ("plain", "lstm"):
            save = torch.jit.save_jit_module_to_flatbuffer
            add("flat_" + name, ".ptl", lambda path: save(torch.jit.script(module), path))


def write_programs(add, name, module, x):
    """Add exported programs, and ONNX that is exported from them."""
    if RELEASE < (2, 1):
        return
    add("exported_" + name, ".pt2", lambda path: torch.export.save(torch.export.export(module, (x,)), path))
    if "scripted" not in name:
        add("sized_" + name, ".pt2", lambda path: torch.export.save(with_batch(module, x), path))
    if RELEASE >= (2, 5):
        more = {"dynamo": True, "external_data": False}
        add("dynamo_" + name, ".onnx", lambda path: torch.onnx.export(module, (x,), path, **more))
    else:
        add("dynamo_" + name, ".onnx", lambda path: torch.onnx.dynamo_export(module, x).save(path))
    if name in ("plain", "grouped", "mlp", "conv1d"):
        quantized = through_export(module, x)
        program = torch.export.export(quantized, (x,))
        add("exported_quantized_" + name, ".pt2", lambda path: torch.export.save(program, path), quantized)


def with_batch(module, x):
    """Return an exported program with a dynamic first dim."""
    from torch.export import export

    name = next(iter(module.forward.__code__.co_varnames[1:]))
    if RELEASE < (2, 2):
        from torch.export import dynamic_dim

        return export(module, (x,), constraints=[dynamic_dim(x, 0)])
    from torch.export import Dim

    return export(module, (x,), dynamic_shapes={name: {0: Dim("batch")}})


def opsets():
    """Return the oldest and the newest opset that this release's tracing exporter writes, besides its default, None."""
    if RELEASE < (1, 2):
        return [None]
    newest = {(1, 2): 10, (1, 3): 11, (1, 4): 11, (1, 8): 13, (1, 13): 16, (2, 1): 17}.get(RELEASE, 20)
    return [7 if RELEASE < (2, 8) else 9, newest]


def export(module, x, path, opset):
    """Write an ONNX file by tracing."""
    more = {} if opset is None else {"opset_version": opset}
    if RELEASE >= (2, 5):
        more["dynamo"] = False
    torch.onnx.export(module, x, path, input_names=["x0"], output_names=["y0"], **more)


def main(target):
    """Write the archive."""
    archive = Archive(target)
    torch.set_num_threads(1)
    tables = [networks()]
    if RELEASE >= (1, 4):
        tables.append(quantized())
    for table in tables:
        for name, (make, x) in table.items():
            archive.attempt(name, lambda name=name, make=make, x=x: write(archive, name, make, x))
    archive.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
