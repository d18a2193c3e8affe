"""The codes of notes: from which verbosity each is shown, what it means, and an example. They do not change."""

from __future__ import annotations

from dataclasses import dataclass

ACTION, INFO, DETAIL = "action", "info", "detail"
LEVELS = (ACTION, INFO, DETAIL)
"""`action` notes are shown by default, `info` notes with `-v`, `detail` notes with `-vv`."""

ASSUMED_INPUT = "assumed-input"
OTHER = "other"
"""The code of a plain text that a plugin gives."""


@dataclass(frozen=True)
class NoteCode:
    """One kind of note: its level, a summary in one line, and a paragraph with an example."""

    code: str
    level: str
    summary: str
    text: str


_ROWS = (
    # Things that were assumed or chosen, and that the user can choose otherwise
    NoteCode(
        ASSUMED_INPUT,
        ACTION,
        "The shape and dtype of the input were inferred from a layer.",
        "A PyTorch module does not store the shape of its input. The converter infers it from the first layer that "
        "fixes one and tries it by running the module. Example: a model that begins with Conv2d(1, 8, 3) gets "
        "float32[batch,1,28,28]; `--input 'float32[batch,1,64,64]'` sets another size.",
    ),
    NoteCode(
        "described-dtype",
        ACTION,
        "The weights are half precision, and so are the inputs.",
        "A file of weights contains float16 or bfloat16 numbers. Its model takes inputs of that dtype unless you "
        "say otherwise. Example: `--input x:float16[batch,16]` for a state dict in float16.",
    ),
    NoteCode(
        "chosen-signature",
        ACTION,
        "A SavedModel or TensorFlow Lite file has several signatures, and one was chosen.",
        "`--signature NAME` chooses another. Example: a SavedModel with `serving_default` and `encode` is converted "
        "from `serving_default`; `--signature encode` converts the other one.",
    ),
    NoteCode(
        "false-dim",
        ACTION,
        "A file gives one name to dims of unlike sizes, and the name was dropped.",
        "Names of dims in an ONNX file are not enforced by any runtime. The converter compares them with the sizes "
        "that follow from the inputs. Example: the output of `Concat(x, x)` is declared [n, 4], as x is.",
    ),
    NoteCode(
        "other-signatures",
        INFO,
        "Signatures and functions of a SavedModel that may do more than compute are left out.",
        "The converted signature only computes, and what TensorFlow runs when it loads the file does too. Others read "
        "or write files, for example. They are removed from the copy that verification runs. Example: `infer` of a "
        "model for on-device training, beside `save` and `restore`.",
    ),
    NoteCode(
        "file-metadata",
        INFO,
        "A TensorFlow Lite file says how its inputs are made, and what its outputs mean.",
        "The file has metadata as tflite-support defines it. `convert inspect` shows it by default, and it is not "
        "converted. Example: metadata: input image: RGB picture 224x224, (pixel - 127.5) / 127.5.",
    ),
    NoteCode(
        "chosen-part",
        ACTION,
        "A checkpoint contains several models or sets of weights, and one was chosen.",
        "`--part NAME` chooses another. Example: a checkpoint with `model` and `ema` is converted from `model`; "
        "`--part ema` converts the averaged weights.",
    ),
    NoteCode(
        "found-outputs",
        INFO,
        "The outputs of a frozen graph are the nodes that no other node reads.",
        "A frozen graph does not list its outputs. `--outputs NAME,…` names them. Example: `--outputs logits` "
        "keeps the logits and drops the Softmax after them.",
    ),
    NoteCode(
        "guessed-outputs",
        ACTION,
        "The outputs of a frozen graph were guessed, and other choices are possible.",
        "A graph with several unread nodes or several inputs may contain a loss or a metric besides the model. "
        "`convert inspect FILE --nodes '*'` lists the names, `--outputs NAME,…` chooses. Example: `--outputs "
        "prob` keeps the probabilities, and drops the accuracy and its input of labels.",
    ),
    NoteCode(
        "single-graph",
        ACTION,
        "A model of several parts became one graph.",
        "An encoder with a decoder is converted to one file because the output is named as one file. Give a folder as "
        "the output to get an encoder, a decoder and a decoder with a cache. Example: `-o t5/`.",
    ),
    NoteCode(
        "default-input",
        ACTION,
        "An input with a default value became a constant.",
        "A placeholder or an ONNX input with a default value is fixed to that value. `--input NAME:DTYPE[DIMS]` keeps "
        "a TensorFlow placeholder an input. Example: `--input keep_prob:float32` for a graph with a dropout rate.",
    ),
    NoteCode(
        "fixed-input",
        INFO,
        "An input has a fixed value because you asked for it.",
        "`--input NAME=VALUE` makes an input a constant. The converted model holds for this value only. Example: "
        "`--input training=False`.",
    ),
    NoteCode(
        "shared-dim",
        ACTION,
        "The first dims of several inputs share one name, or nothing says that they are equal.",
        "Inputs that meet in an operator get one batch dim. `--input NAME:[n,…]` gives an input a dim of its own. "
        "Example: `--input query:[q,16] --input table:[rows,16]`.",
    ),
    NoteCode(
        "unread-option",
        ACTION,
        "An option has no effect in this conversion.",
        "The option belongs to another kind of source or output, or needs a second option. Leave it out. Example: "
        "`--signature` has no effect on an ONNX file.",
    ),
    NoteCode(
        "training-mode",
        INFO,
        "The model is in training mode, and is converted as it computes in evaluation.",
        "Dropout and batch normalization compute something else in training. Call `module.eval()` before you save. In "
        "Keras a layer that is called with `training=True` inside the model is converted as `predict` computes it.",
    ),
    NoteCode(
        "untested-version",
        ACTION,
        "The converter was not tested with this version of PyTorch.",
        "Rely on the verification: it compares the numbers on this machine. Example: install the version that the "
        "note names if a conversion fails.",
    ),
    # Sizes and values that limit the converted model
    NoteCode(
        "fixed-dim",
        ACTION,
        "A dim that could be dynamic has a fixed size.",
        "The model only runs, or only converts, for this size. `--input` with another number sets another size. "
        "Example: `--input x:float32[batch,3,320]` for a model whose length was fixed to 256.",
    ),
    NoteCode(
        "size-limits",
        ACTION,
        "The converted model accepts fewer sizes than the source.",
        "The model decides on a size in Python, or the target refuses a size. The note names the sizes. Example: "
        "PyTorch captures a batch of 2 or more, and the artefact refuses a batch of 1.",
    ),
    NoteCode(
        "unchecked-sizes",
        ACTION,
        "The converted model does not refuse sizes for which it is wrong.",
        "The source raises an error for some sizes. The target format has no operator that does. Feed only the sizes "
        "that the note names. Example: `h % 8 == 0`.",
    ),
    NoteCode(
        "value-limits",
        ACTION,
        "The converted model fails for some values that the source accepts.",
        "The number of results depends on the values of the input. Example: `torch.bincount(x, minlength=10)` "
        "converts for values below 10.",
    ),
    NoteCode(
        "traced",
        ACTION,
        "Only one path through the program is in the converted model.",
        "`--trace` records the branches that the example input takes. The converted model gives wrong results for "
        "an input that takes another branch. Example: convert without `--trace`, or with an example for the "
        "branch that you use.",
    ),
    NoteCode(
        "control-flow",
        INFO,
        "A branch or loop of the program is in the graph.",
        "A condition on a value or a size became an If, and a loop over `nonzero()` visits all elements. Example: "
        "`if x.sum() > 0:` becomes an If with both branches.",
    ),
    NoteCode(
        "dropped-check",
        INFO,
        "A check that only raises an error is not in the converted model.",
        "The target has no operator that raises this error. The converted model returns results instead. Example: "
        "`assert x.min() >= 0` in forward.",
    ),
    NoteCode(
        "scripted",
        INFO,
        "The module was converted through torch.jit.script.",
        "torch.export does not capture this module. Example: a module with a loop whose length depends on a value.",
    ),
    # State
    NoteCode(
        "state-inputs",
        ACTION,
        "State that the model changes became an input and an output.",
        "Feed the initial value to the first call, and to each later call the output of the previous one. "
        "Example: a counter `steps` becomes the input `steps` and the output `steps_out`.",
    ),
    NoteCode(
        "state-buffers",
        INFO,
        "State that the model changes is kept in buffers of the artefact.",
        "The artefact starts as the source does, and each call changes it. You do not feed it. Example: the "
        "hidden state of a stateful RNN in a PyTorch artefact.",
    ),
    NoteCode(
        "dropped-state",
        ACTION,
        "The converted model does not keep what forward stores in the module.",
        "Every call computes what a first call computes. To keep the tensor, register it with `register_buffer` "
        "in `__init__`. Example: `self.cache = x` in forward.",
    ),
    NoteCode(
        "unused-state",
        INFO,
        "State that no output depends on was left out.",
        "The model stores a value and never reads it. Example: a counter of calls.",
    ),
    NoteCode(
        "first-call",
        INFO,
        "A value that is None until the first call starts as zeros.",
        "Test runs with None and with zeros gave the same numbers. Example: the hidden state of a recurrent module.",
    ),
    NoteCode(
        "in-place-input",
        ACTION,
        "The source writes to its input, and the converted model does not.",
        "The outputs are the same. Example: `x.add_(1)` on an argument of forward changes the caller's tensor in "
        "PyTorch only.",
    ),
    # Weights and files
    NoteCode(
        "loaded-as",
        INFO,
        "The class, module or part of a file that the model comes from.",
        "Example: a folder of transformers is loaded as BertModel because its configuration says so.",
    ),
    NoteCode(
        "merged-adapter",
        INFO,
        "An adapter was merged into the weights of the model.",
        "Example: `--adapter FOLDER` adds the products of LoRA's matrices to the weights that they belong to. The note "
        "says how many weights changed.",
    ),
    NoteCode(
        "unpacked-weights",
        INFO,
        "The weights of layers were stored as integers of a few bits, and are numbers now.",
        "Example: a folder of GPTQ has words of eight integers each, with scales and zero points. Each weight is the "
        "scale times the difference of integer and zero point, rounded once.",
    ),
    NoteCode(
        "left-out",
        ACTION,
        "A model of a pipeline is not converted.",
        "Example: the safety checker of Stable Diffusion, which runtimes of pipelines do not take as a file of their "
        "own. Name its folder to convert it.",
    ),
    NoteCode(
        "weights-prefix",
        INFO,
        "A prefix was removed from, or added to, the names of the weights.",
        "Training code wraps a module and puts a prefix before each name. Example: `module.` of DataParallel.",
    ),
    NoteCode(
        "unused-weights",
        ACTION,
        "Tensors in the file have no place in the model.",
        "They were left out. Example: the weights of a pooling layer in a checkpoint of BertForMaskedLM.",
    ),
    NoteCode(
        "unused-modules",
        ACTION,
        "Whole modules of a Hugging Face model have no effect on any output.",
        "Their weights are left out, because no input reaches them. `--input` adds an input, `--task` and `--part` "
        "choose another conversion. Example: a model of texts and pictures that is converted as a text decoder leaves "
        "out `model.vision_tower`.",
    ),
    NoteCode(
        "cast-weights",
        INFO,
        "Weights have another dtype than the module.",
        "They were cast to the module's dtype. Example: a float16 checkpoint for a module in float32.",
    ),
    NoteCode(
        "no-checksums",
        INFO,
        "The file has no checksums, so a damaged weight cannot be noticed.",
        "Example: a zip that was written without CRC-32 sums.",
    ),
    NoteCode(
        "weights-beside",
        ACTION,
        "The weights are in a second file that belongs to the model.",
        "Copy both files together. Example: `model.onnx` and `model.onnx.data`.",
    ),
    NoteCode(
        "padded-windows",
        ACTION,
        "A sliding window of attention counts padding between tokens.",
        "A runtime that pads shorter texts of a batch behind their tokens, and appends new tokens after that, gives "
        "them other tokens than alone. Example: Gemma 2 in onnxruntime-genai, three texts of different lengths.",
    ),
    NoteCode(
        "companions-missing",
        ACTION,
        "Files that the runtime needs are missing next to the output.",
        "Copy them yourself, or give the output a folder of its own. Example: `-o bert/model.onnx` also copies "
        "`tokenizer.json`.",
    ),
    NoteCode(
        "companions-copied",
        INFO,
        "Files that the runtime needs were copied next to the output.",
        "Example: `tokenizer.json` and `config.json` of a folder of transformers.",
    ),
    NoteCode(
        "copied-weights",
        INFO,
        "A shared weight is stored more than once.",
        "The target's layers cannot share it, so fine-tuning would change one copy only. Example: tied embeddings in "
        "two Keras layers.",
    ),
    NoteCode(
        "no-text-form",
        INFO,
        "A network file is too large for its text form.",
        "Caffe2 files up to 1 MiB get a `.pbtxt` next to them. The binary file is complete. Example: `init_net.pb`.",
    ),
    NoteCode(
        "left-out",
        INFO,
        "A part of the file that inference does not use was left out.",
        "Example: training information in an ONNX file, or a function with the name of an ONNX operator.",
    ),
    # Names, dtypes, layouts
    NoteCode(
        "renamed",
        ACTION,
        "An input or output has another name in the artefact.",
        "The source's name is not legal in the target format, or is taken. Feed the artefact by the new name; "
        "`renamed` in `--json` maps old names to new ones. Example: `image:0` becomes `image_0`.",
    ),
    NoteCode(
        "wider-dtype",
        ACTION,
        "The artefact computes or stores in a wider dtype than the source.",
        "The target's runtime does not compute in the source's dtype. Example: a bfloat16 model becomes float32 "
        "in TFLite; `--dtype float16` stores it in 16 bits.",
    ),
    NoteCode(
        "narrower-dtype",
        ACTION,
        "The artefact computes in a narrower dtype than the source.",
        "The target's runtime does not compute in the source's dtype. Example: PyTorch's dynamically quantized layers "
        "choose their scales in float64, which TFLite has no kernels for.",
    ),
    NoteCode(
        "other-dtype",
        ACTION,
        "An input or output has another dtype in the artefact, because the target does not support its own.",
        "Feed and read the artefact in that dtype. Values outside its range cannot be fed. Example: token ids in "
        "int64 are int32 in a Core ML package, and a boolean output is float32.",
    ),
    NoteCode(
        "kept-wide",
        INFO,
        "Operators stay in float32 in a narrower model.",
        "Their numbers overflow in the narrower dtype, or a test run was not possible. Example: a Softmax over a "
        "mask of -1e9 in a float16 model.",
    ),
    NoteCode(
        "rounded-activations",
        INFO,
        "onnxruntime rounds activations of the source, which the converted model keeps.",
        "Products with weights of few bits (MatMulNBits) state the least accuracy that a runtime must keep. At "
        "accuracy_level 4 onnxruntime rounds the activations to 8 bits in blocks. The source is verified without "
        "this rounding, because the converted model computes the products of its weights as they are. Example: int4 "
        "files of onnxruntime-genai's builder.",
    ),
    NoteCode(
        "missing-kernels",
        ACTION,
        "onnxruntime has no kernels for this model's dtype on the CPU.",
        "The file is valid, but the CPU provider does not load it. Example: convert the float32 model with "
        "`--dtype bfloat16` instead.",
    ),
    NoteCode(
        "float-activations",
        ACTION,
        "Activations that the source quantizes at run time are not rounded in the graph.",
        "The weights are 8-bit, and the runtime quantizes activations as it runs. The outputs of the converted model "
        "are more exact, and differ from the source by up to a hundredth of their size. Example: a TFLite model with "
        "dynamic-range quantization.",
    ),
    NoteCode(
        "complex-pairs",
        ACTION,
        "A complex input or output is a pair of real numbers.",
        "The last dim, of size 2, holds the real and the imaginary part. Example: complex64[8] becomes float32[8,2].",
    ),
    NoteCode(
        "random-bits",
        INFO,
        "Random bits are those that XLA computes on the CPU.",
        "StableHLO leaves open which bits a state gives. GPUs and TPUs may give others. Example: "
        'jax.random.key(0, impl="rbg").',
    ),
    NoteCode(
        "dense-tensors",
        INFO,
        "Sparse tensors are dense in the graph.",
        "The values are the same, and the file is larger. Example: a weight in torch.sparse_csr.",
    ),
    NoteCode(
        "moved-layout",
        INFO,
        "Inputs or outputs have another layout because of `--layout`.",
        "Example: `--layout nhwc` turns float32[batch,3,224,224] into float32[batch,224,224,3].",
    ),
    NoteCode(
        "cpu-delegate",
        INFO,
        "XNNPACK computes these operators of a TensorFlow Lite file.",
        "TensorFlow Lite's interpreters give parts of a model to XNNPACK, which is faster on CPUs. Example: `XNNPACK "
        "computes 30 of 31 operators; on other kernels: GATHER`.",
    ),
    NoteCode(
        "chosen-floats",
        INFO,
        "A model in 8 bits computes these operators in floats.",
        "Their kernels in 8 bits are slower on CPUs, or rounding would cost more accuracy than it saves time. "
        "Operators with weights compute in 8 bits. `--io-dtype int8` computes everything in 8 bits, for devices "
        "without floating-point arithmetic. Example: `12 × SOFTMAX, 25 × RSQRT`.",
    ),
    NoteCode(
        "box-order",
        ACTION,
        "`--postprocess detection` assumes that boxes are corners, x first.",
        "The tensors do not say what their four columns are. Example: `--postprocess detection,boxes=cxcywh` reads the "
        "centre and the size.",
    ),
    NoteCode(
        "runtime-operators",
        INFO,
        "Operators of ONNX Runtime were rewritten in operators of ONNX.",
        "Example: `com.microsoft::Gelu` becomes Erf, Mul and Add.",
    ),
    NoteCode(
        "not-joined",
        INFO,
        "The decoders of a model were not written as one file as well.",
        "transformers.js needs that file; optimum does without it. Example: with `--opset 8`, weights are "
        "among the inputs of both decoders.",
    ),
    NoteCode(
        "no-shape",
        INFO,
        "An output is written without a shape because its rank is not known.",
        "Runtimes load the file, and onnx.checker does not accept it. Example: the result of an If whose branches "
        "have different ranks.",
    ),
    NoteCode(
        "repaired",
        INFO,
        "An ONNX file violates a rule of ONNX's checker that ONNX Runtime does not enforce.",
        "The reader repaired it in memory; the file stays as it is. Example: a node that stands before the node whose "
        "output it reads.",
    ),
    NoteCode(
        "contradiction",
        ACTION,
        "The model file contradicts itself.",
        "A declared dtype or size is not the one that its operators compute. Some runtimes refuse such a file. "
        "Example: an output declared as [n,10] that has 11 columns.",
    ),
    NoteCode(
        "recursion-limit",
        ACTION,
        "The Keras model is too deep for Python's recursion limit.",
        "Call `sys.setrecursionlimit` with the number in the note before you load the model.",
    ),
    # Numbers
    NoteCode(
        "random-output",
        INFO,
        "An output depends on random numbers.",
        "Every runtime has its own random generator, so the outputs are not compared number by number. If it does "
        "not take too long, their distributions are compared. Example: a model with dropout that is active at "
        "inference.",
    ),
    NoteCode(
        "random-differs",
        ACTION,
        "Only one of source and target gives different numbers at each run.",
        "One of the two models ignores the randomness of the other. Example: dropout that the target left out.",
    ),
    NoteCode(
        "unrepeatable",
        ACTION,
        "A model gives different numbers for the same inputs.",
        "A difference between source and target may come from this. Example: a model that reads the clock.",
    ),
    NoteCode(
        "special-values",
        DETAIL,
        "Kernels treat NaN, infinities or denormals differently, as declared.",
        "`convert ops --to FORMAT` lists these differences by operator. Example: TensorFlow's fused Conv and Relu "
        "return 0 for NaN.",
    ),
    NoteCode(
        "special-differs",
        ACTION,
        "NaN or infinities lead to different results, and no declared difference explains it.",
        "Ordinary numbers agree. If your inputs can contain NaN, infinities or denormals, check these outputs; "
        "`-vv` names the elements. Example: a kernel that loses a NaN.",
    ),
    NoteCode(
        "special-unverified",
        INFO,
        "NaN and infinities were not compared.",
        "The model or its runtime refuses such inputs. Example: a model that raises an error for NaN.",
    ),
    NoteCode(
        "kernel-numbers",
        DETAIL,
        "A kernel computes ordinary numbers less accurately, or differently in a documented case.",
        "Example: oneDNN rounds quantized values differently on processors with VNNI.",
    ),
    NoteCode(
        "kernel-ways",
        INFO,
        "PyTorch's kernels differ between training and inference at masked positions.",
        "The fast path of TransformerEncoder gives zeros at padded positions. The converted model gives the "
        "numbers that the layers compute. Example: compare with `torch.backends.mha.set_fastpath_enabled(False)`.",
    ),
    # What a verdict says
    NoteCode(
        "not-compared",
        ACTION,
        "An output, a part or generated text was not compared.",
        "The verdict says nothing about it. Example: an output that only one of two files has; `--map left=right` "
        "pairs outputs with different names.",
    ),
    NoteCode(
        "not-timed",
        ACTION,
        "Runs of the source or the target were not timed.",
        "`--time` could not measure them. Example: a model in memory whose framework can only run files.",
    ),
    NoteCode(
        "limited-inputs",
        ACTION,
        "The models were compared on fewer kinds of inputs than usual.",
        "The source refuses random inputs, or operators of the target take fewer. `--inputs FILE.npz` supplies your "
        "own inputs. Example: a model that accepts only token ids below 1000, or a target with GroupQueryAttention, "
        "which reads no mask.",
    ),
    NoteCode(
        "limited-sizes",
        INFO,
        "The models were compared at certain sizes only.",
        "One of them does not run at the usual sizes. `--input` names other sizes. Example: compared at n=7 only, "
        "because the target has this fixed size.",
    ),
    NoteCode(
        "compared-before-selection",
        INFO,
        "Detections were compared in two steps.",
        "Rounding, of 8 bits above all, decides which of two nearly equal boxes is selected. So boxes and scores are "
        "compared with those of the source, and the selection is checked on the target's own boxes and scores. To "
        "compare the detections themselves, measure the accuracy on pictures with known objects. Example: an SSD with "
        "`--quantize int8 --calibrate pictures.npz --postprocess detection`.",
    ),
    NoteCode(
        "wide-bound",
        ACTION,
        "The verdict allows larger errors than the format needs.",
        "The rounding of this format is not simulated. The verdict uses that of a format with fewer bits instead. "
        "Compare the accuracy on your own data. Example: activations in 16 bits, which are judged as if they had "
        "8.",
    ),
    NoteCode(
        "mixed-ranges",
        ACTION,
        "An 8-bit tensor concatenates parts with different ranges.",
        "All numbers of the tensor share one scale, which fits the widest part. A part with a small range gets "
        "few of the 255 values. `--keep-float NAME` computes the concatenation in floats, so that each part keeps "
        "its own scale. So does each part that is an output of its own: `--outputs` with the names of the parts, for "
        "an ONNX source. Example: boxes of 0 to "
        "640 pixels next to probabilities of 0 to 1.",
    ),
    NoteCode(
        "large-unverified",
        INFO,
        "Large inputs were not compared.",
        "The numbers overflow, or rounding decides them. Example: inputs 100 times larger than usual in a model with "
        "an exponential.",
    ),
    NoteCode(
        "float64-unavailable",
        INFO,
        "The source has no float64 run on some inputs.",
        "The shared graph in float64 is the reference there. Example: an operator without a float64 kernel.",
    ),
    NoteCode(
        "other-runtime",
        ACTION,
        "One of several runtimes for the artefact does not run it.",
        "The verdict holds for the others. Example: ai-edge-litert runs a TensorFlow Lite file whose operators "
        "have versions that tf.lite.Interpreter lacks.",
    ),
    NoteCode(
        "other-machine",
        ACTION,
        "The artefact was not run, because its runtime exists for another system only.",
        "Inputs, outputs and weights were read back from the file; the numbers were not compared. Copy source and "
        "artefact to a machine that runs it and compare them there. Example: `convert verify model.pt "
        "model.mlpackage` on a Mac.",
    ),
    NoteCode(
        "paired-by-place",
        ACTION,
        "Inputs or outputs were paired by their order, because their names differ.",
        "`--map left=right` pairs them differently. Example: `a, b` of the source are paired with `left, right`.",
    ),
    NoteCode(
        "paired-otherwise",
        INFO,
        "An input or output has another name or dtype in the other file.",
        "Both get the same numbers. Example: `input` is compared with `input:0`.",
    ),
    NoteCode(
        "unreadable-target",
        ACTION,
        "The target can be run but not read.",
        "Its names and weights are assumed to be those of the source. Example: an ONNX file with an operator that "
        "only onnxruntime knows.",
    ),
    NoteCode(
        "missing-bytecode",
        ACTION,
        "Python compiled the modules of large packages, because they were installed without bytecode.",
        "pip compiles the packages that it installs; uv does so with `--compile-bytecode`. A command cannot write "
        "bytecode, because it may only write beside its output, so each one compiles PyTorch and TensorFlow again. "
        "Example: a small conversion takes 15 s instead of 6; after `python -m compileall -q -j 0 site-packages` it "
        "takes 6.",
    ),
    NoteCode(
        OTHER,
        ACTION,
        "A note of a plugin that has no code.",
        "A plugin gives a code with `report.note(text, code=…)`. Example: `report.note('rows are sorted')`.",
    ),
)

CODES = {row.code: row for row in _ROWS}
