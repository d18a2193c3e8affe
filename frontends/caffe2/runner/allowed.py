"""The operators that a Caffe2 model may contain before it is run: those that only compute.

Each operator in the registry of Caffe2 1.8.1 was reviewed. Excluded are those that read or write files or databases,
use the network, call Python or another library, end the process, or carry a net as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from convert.errors import Location, Problem, UnsafeInput
from convert.files.caffe2.folder import PREDICTOR, predictor_nets
from convert.files.caffe2.netdef import Net, Op, read_net, walk

ALLOWED = frozenset(
    """
    APMeter Abs AbsGradient Accumulate AccumulateHistogram Accuracy Acos AcosGradient Adadelta Adagrad Adam Add
    AddGradient AddPadding AffineChannel AffineChannelGradient Alias AliasWithName And Append ArgMax ArgMin Asin
    AsinGradient Assert Atan AtanGradient AtomicAppend AtomicFetchAdd AtomicFetchAdd64 AtomicIter AveragePool
    AveragePool1D AveragePool1DGradient AveragePool2D AveragePool2DGradient AveragePool3D AveragePool3DGradient
    AveragePoolGradient AveragePut AveragedLoss AveragedLossGradient BBoxTransform
    BRGNCHWCToPackedInt8BGRAStylizerDeprocess BatchBoxCox BatchBucketOneHot BatchBucketize BatchDenseToSparse
    BatchGather BatchGatherGradient BatchMatMul BatchMoments BatchMomentsGradient BatchOneHot BatchPermutation
    BatchPermutationGradient BatchSparseToDense BatchToSpace BernoulliJSD BernoulliJSDGradient BisectPercentile
    BitwiseAnd BitwiseOr BitwiseXor BooleanMask BooleanMaskGradient BooleanMaskLengths BooleanUnmask BoxWithNMSLimit
    Bucketize ByteWeightDequant C10LayerNorm_DontUseThisOpYet CTCBeamSearchDecoder CTCGreedyDecoder Cast Cbrt
    CbrtGradient Ceil ChannelBackpropStats ChannelShuffle ChannelShuffleGradient ChannelStats CheckAtomicBool
    CheckCounterDone CheckDatasetConsistency Clip ClipGradient ClipTensorByScaling CloseBlobsQueue
    CloseRebatchingQueue Col2Im CollectAndDistributeFpnRpnProposals CollectRpnProposals CollectTensor ColwiseMax
    ColwiseMaxGradient ComputeOffset Concat ConcatBatchMatMulBatchGatherOp ConcatTensorVector Conditional
    ConditionalSetAtomicBool ConstantFill Conv Conv1D Conv1DGradient Conv2D Conv2DGradient Conv3D Conv3DGradient
    ConvFusion ConvGradient ConvRelu ConvTranspose ConvTransposeGradient Copy CopyCPUToGPU CopyCPUToIDEEP
    CopyFromCPUInput CopyGPUToCPU CopyIDEEPToCPU CopyOnDeviceLike CopyRowsToTensor CopyRowsToTensorGradient Cos
    CosGradient Cosh CoshGradient CosineEmbeddingCriterion CosineEmbeddingCriterionGradient CosineSimilarity
    CosineSimilarityGradient CountDown CountUp CreateAtomicBool CreateBlobsQueue CreateCounter CreateMap CreateMutex
    CreateRebatchingQueue CreateScope CreateTensorVector CreateTreeCursor CrossEntropy CrossEntropyGradient Cube
    CubeGradient DataCouple DeformConv DeformConvGradient DenseVectorToIdList DepthConcat DepthSplit Dequantize
    DequeueBlobs DequeueRebatchingQueue DiagonalFill DistributeFpnProposals Div DivGradient Do DotProduct
    DotProductGradient DotProductWithPadding DotProductWithPaddingGradient Dropout DropoutGrad EQ ElementwiseLinear
    ElementwiseLinearGradient Elu EluGradient EnforceFinite EnqueueBlobs EnqueueRebatchingQueue EnsureCPUOutput
    EnsureClipped EnsureDense Erf ErfGradient Exp Expand ExpandDims ExpandGradient FC FCGradient FCTransposed
    FCTransposedGradient FP16MomentumSGDUpdate FP32MomentumSGDUpdate FbFCPacked FbGemmPack FbGemmPackTranspose Find
    FindDuplicateElements Flatten FlattenToVec FlexibleTopK FlexibleTopKGradient Float16ConstantFill
    Float16SparseNormalize Float16UniformFill FloatToFused2BitFakeRowwiseQuantized FloatToFused2BitRowwiseQuantized
    FloatToFused4BitFakeRowwiseQuantized FloatToFused4BitRowwiseQuantized FloatToFused8BitRowwiseQuantized
    FloatToFused8BitRowwiseQuantizedHalfScaleBias FloatToFusedRandRowwiseQuantized FloatToHalf
    FloatToRowwiseQuantized8Bits Floor Free Ftrl Fused2BitRowwiseQuantizedToFloat Fused2BitRowwiseQuantizedToHalf
    Fused4BitRowwiseQuantizedToFloat Fused4BitRowwiseQuantizedToHalf Fused8BitRowwiseQuantizedHalfScaleBiasToFloat
    Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat Fused8BitRowwiseQuantizedToFloat
    Fused8BitRowwiseQuantizedToHalfFloat FusedRandRowwiseQuantizedToFloat GE GFtrl GRUUnit GRUUnitGradient GT Gather
    GatherByKey GatherFused8BitRowwise GatherPadding GatherRanges GatherRangesToDense GaussianFill Gelu GeluGradient
    GenerateProposals GenerateProposalsCPP GetCursorOffset GivenTensorBoolFill GivenTensorByteStringToUInt8Fill
    GivenTensorDoubleFill GivenTensorFill GivenTensorInt16Fill GivenTensorInt64Fill GivenTensorIntFill
    GivenTensorStringFill Glu GroupNorm GroupNormGradient HSoftmax HSoftmaxGradient HSoftmaxSearch
    HalfFloatToFused8BitRowwiseQuantized HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias HalfToFloat
    HalfToFused2BitFakeRowwiseQuantized HalfToFused2BitRowwiseQuantized HalfToFused4BitFakeRowwiseQuantized
    HalfToFused4BitRowwiseQuantized HardSigmoid HardSigmoidGradient HasElements HasScope HeatmapMaxKeypoint Histogram
    HuffmanTreeHierarchy If Im2Col IncrementPut IndexFreeze IndexGet IndexHash IndexLoad IndexSize IndexStore
    InferenceLSTM InstanceNorm InstanceNormGradient Int8Add Int8AddRelu Int8AveragePool Int8AveragePoolRelu
    Int8BatchMatMul Int8ChannelShuffle Int8Concat Int8Conv Int8ConvPackWeight Int8ConvRelu Int8ConvTranspose
    Int8Dequantize Int8DequantizeRowWise Int8ElementwiseLinear Int8FC Int8FCPackWeight Int8FCRelu Int8Flatten
    Int8Gather Int8GenQuantParams Int8GivenIntTensorFill Int8GivenTensorFill Int8GroupNorm Int8LSTMUnit Int8LeakyRelu
    Int8MaxPool Int8MaxPoolRelu Int8Mul Int8Quantize Int8Relu Int8Reshape Int8ResizeNearest Int8RoIAlign Int8Sigmoid
    Int8Slice Int8Softmax Int8SpatialBN Int8SpatialBNRelu Int8Sum Int8SumRelu Int8Tanh Int8Transpose IntIndexCreate
    IntegralImage IntegralImageGradient IsEmpty IsMemberOf IsNaN IsNanInf Iter KeySplit KeyValueToMap L1Distance
    L1DistanceGradient LC LC1D LC1DGradient LC2D LC2DGradient LC3D LC3DGradient LCGradient LE LRN LRNGradient LSTMUnit
    LSTMUnitGradient LT LabelCrossEntropy LabelCrossEntropyGradient LambdaRankNdcg LambdaRankNdcgGradient Lars
    LastNWindowCollector LayerNorm LayerNormGradient LeakyRelu LeakyReluGradient LearningRate LearningRateAdaption
    LengthsGather LengthsIndicesInGradientMeanGradient LengthsIndicesInGradientSumGradient LengthsMax
    LengthsMaxWithMainInputAndForwardOutputGradient LengthsMean LengthsMeanGradient LengthsPad LengthsPartition
    LengthsRangeFill LengthsSplit LengthsSum LengthsSumGradient LengthsTile LengthsToOffsets LengthsToRanges
    LengthsToSegmentIds LengthsToShape LengthsToWeights LengthsTopK LengthsTopKGradient LengthsWeightedSum
    LengthsWeightedSumGradient LengthsWeightedSumWithMainInputGradient Log Logit LogitGradient LongIndexCreate LpNorm
    LpNormGradient LpPool LpPoolGradient MSRAFill MakeTwoClass MakeTwoClassGradient MapToKeyValue
    MarginRankingCriterion MarginRankingCriterionGradient MatMul Max MaxGradient MaxPool MaxPool1D MaxPool1DGradient
    MaxPool2D MaxPool2DGradient MaxPool3D MaxPool3DGradient MaxPoolGradient MaxPoolWithIndex MaxPoolWithIndexGradient
    Mean MeanGradient MergeDenseFeatureTensors MergeDim MergeIdLists MergeMultiListFeatureTensors
    MergeMultiListFeatureTensorsGradient MergeMultiMapFeatureTensors MergeMultiMapFeatureTensorsGradient
    MergeMultiScalarFeatureTensors MergeMultiScalarFeatureTensorsGradient MergeSingleListFeatureTensors
    MergeSingleListFeatureTensorsGradient MergeSingleMapFeatureTensors MergeSingleMapFeatureTensorsGradient
    MergeSingleScalarFeatureTensors MergeSingleScalarFeatureTensorsGradient Min MinGradient Mish MishGradient Mod
    Moments MomentsGradient MomentumSGD MomentumSGDUpdate Mul MulGradient MultiClassAccuracy NCHW2NHWC NE
    NGramFromCategorical NHWC2NCHW NanCheck NegateGradient Negative Normalize NormalizeGradient NormalizeL1
    NormalizePlanarYUV Not NumpyTile ONNXWhile OneHot Or PRelu PReluGradient PackRNNSequence PackRecords PackSegments
    PackedInt8BGRANHWCToNCHWCStylizerPreprocess PadEmptySamples PadImage PadImageGradient PairWiseLoss
    PairWiseLossGradient Partition Percentile Perplexity PiecewiseLinearTransform Pow PrependDim QuantDecode
    QuantDecodeGradient Quantile Quantize RMACRegions RMSNorm RMSNormGradient Range RangeFill ReadNextBatch
    ReadRandomBatch Reciprocal ReciprocalGradient Recurrent RecurrentGradient RecurrentParamGet RecurrentParamSet
    ReduceBackMax ReduceBackMaxGradient ReduceBackMean ReduceBackMeanGradient ReduceBackSum ReduceBackSumGradient
    ReduceFrontMax ReduceFrontMaxGradient ReduceFrontMean ReduceFrontMeanGradient ReduceFrontSum
    ReduceFrontSumGradient ReduceFrontWeightedSum ReduceFrontWeightedSumGradient ReduceL1 ReduceL1Gradient ReduceL2
    ReduceL2Gradient ReduceMax ReduceMaxGradient ReduceMean ReduceMeanGradient ReduceMin ReduceMinGradient ReduceSum
    ReduceSumGradient ReduceTailSum Relu ReluGradient ReluN ReluNGradient RemoveDataBlocks RemovePadding ReplaceNaN
    ReservoirSampling ResetCounter ResetCursor Reshape ResizeLike ResizeNearest ResizeNearest3D
    ResizeNearest3DGradient ResizeNearestGradient RetrieveCount ReversePackedSegs RmsProp RngUniform RoIAlign
    RoIAlignGradient RoIAlignRotated RoIAlignRotatedGradient RoIPool RoIPoolGradient RowMul RowWiseCounter
    RowWiseSparseAdagrad RowWiseSparseAdagradFusedWithSparseLengthsMeanGradient
    RowWiseSparseAdagradFusedWithSparseLengthsMeanGradientApprox RowWiseSparseAdagradFusedWithSparseLengthsSumGradient
    RowWiseSparseAdagradFusedWithSparseLengthsSumGradientApprox
    RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient
    RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox RowWiseSparseAdam Rowwise8BitQuantizedToFloat
    RowwiseMax RowwiseMaxGradient Rsqrt RsqrtGradient SafeDequeueBlobs SafeEnqueueBlobs Scale ScaleBlobs Scatter
    ScatterAssign ScatterWeightedSum SegmentIdsToLengths SegmentIdsToRanges SegmentOneHot SelfBinningHistogram Selu
    SeluGradient SequenceMask Shape Sigmoid SigmoidCrossEntropyWithLogits SigmoidCrossEntropyWithLogitsGradient
    SigmoidGradient Sign Sin SinGradient Sinh SinhGradient SinusoidPositionEncoding Size Slice SliceGradient Softmax
    SoftmaxGradient SoftmaxWithLoss SoftmaxWithLossGradient Softplus SoftplusGradient Softsign SoftsignGradient
    SortAndShuffle SortedSegmentMean SortedSegmentMeanGradient SortedSegmentRangeLogMeanExp
    SortedSegmentRangeLogMeanExpGradient SortedSegmentRangeLogSumExp SortedSegmentRangeLogSumExpGradient
    SortedSegmentRangeMax SortedSegmentRangeMaxGradient SortedSegmentRangeMean SortedSegmentRangeMeanGradient
    SortedSegmentRangeSum SortedSegmentRangeSumGradient SortedSegmentSum SortedSegmentSumGradient
    SortedSegmentWeightedSum SortedSegmentWeightedSumGradient SpaceToBatch SparseAdadelta SparseAdagrad
    SparseAdagradFusedWithSparseLengthsMeanGradient SparseAdagradFusedWithSparseLengthsMeanGradientApprox
    SparseAdagradFusedWithSparseLengthsSumGradient SparseAdagradFusedWithSparseLengthsSumGradientApprox
    SparseAdagradFusedWithSparseLengthsWeightedSumGradient
    SparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox SparseAdam SparseDropoutWithReplacement SparseFtrl
    SparseLengthsIndicesInGradientMeanGradient SparseLengthsIndicesInGradientSumGradient
    SparseLengthsIndicesInGradientWeightedSumGradient SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient
    SparseLengthsMax SparseLengthsMean SparseLengthsMean2BitRowwiseSparse SparseLengthsMean4BitRowwiseSparse
    SparseLengthsMean8BitRowwiseSparse SparseLengthsMean8BitsRowwise SparseLengthsMeanFused2BitRowwise
    SparseLengthsMeanFused4BitRowwise SparseLengthsMeanFused8BitRowwise SparseLengthsMeanGradient
    SparseLengthsPositionalWeightedSum SparseLengthsSum SparseLengthsSum2BitRowwiseSparse
    SparseLengthsSum4BitRowwiseSparse SparseLengthsSum8BitRowwiseSparse SparseLengthsSum8BitsRowwise
    SparseLengthsSumFused2BitRowwise SparseLengthsSumFused4BitRowwise SparseLengthsSumFused8BitRowwise
    SparseLengthsSumGradient SparseLengthsSumSparseLookup SparseLengthsWeightedMean8BitsRowwise
    SparseLengthsWeightedSum SparseLengthsWeightedSum2BitRowwiseSparse SparseLengthsWeightedSum4BitRowwiseSparse
    SparseLengthsWeightedSum8BitRowwiseSparse SparseLengthsWeightedSum8BitsRowwise
    SparseLengthsWeightedSumFused2BitRowwise SparseLengthsWeightedSumFused4BitRowwise
    SparseLengthsWeightedSumFused8BitRowwise SparseLengthsWeightedSumGradient
    SparseLengthsWeightedSumWithMainInputGradient SparseLpRegularizer SparseMomentumSGDUpdate SparseNormalize
    SparseSortedSegmentMean SparseSortedSegmentMeanGradient SparseSortedSegmentSum SparseSortedSegmentSumGradient
    SparseSortedSegmentWeightedSum SparseSortedSegmentWeightedSumGradient SparseStorm SparseToDense SparseToDenseMask
    SparseToDenseMaskGradient SparseUnsortedSegmentMean SparseUnsortedSegmentMeanGradient SparseUnsortedSegmentSum
    SparseUnsortedSegmentSumGradient SparseUnsortedSegmentWeightedSum SparseUnsortedSegmentWeightedSumGradient
    SparseWngrad SpatialBN SpatialBNGradient SpatialSoftmaxWithLoss SpatialSoftmaxWithLossGradient Split
    SplitByLengths Sqr Sqrt SquareRootDivide SquaredL2Distance SquaredL2DistanceGradient Squeeze StatRegistryCreate
    StatRegistryExport StatRegistryUpdate StdDevPut StopGradient Storm StringEndsWith StringEquals StringIndexCreate
    StringJoin StringPrefix StringStartsWith StringSuffix StumpFunc StumpFuncIndex Sub SubGradient Sum SumElements
    SumElementsGradient SumElementsInt SumInt SumReduceLike SumRelu SumSqrElements Summarize SwapBestPath Swish
    SwishGradient TT TTLinearGradient TTSparseLengthsSum TTSparseLengthsSumGradient Tan TanGradient Tanh TanhGradient
    TensorVectorSize ThresholdedRelu ThresholdedReluGradient Tile TileGradient TimerBegin TimerEnd TimerGet
    TimerGetAndEnd TopK TopKGradient Transpose TrimDataset UnPackRecords UniformFill UniformIntFill Unique
    UniqueUniformFill UnpackRNNSequence UnpackSegments UnsafeCoalesce UnsortedSegmentMean UnsortedSegmentMeanGradient
    UnsortedSegmentSum UnsortedSegmentSumGradient UnsortedSegmentWeightedSum UnsortedSegmentWeightedSumGradient
    UpsampleBilinear UpsampleBilinearGradient VariableLengthSequencePadding ViterbiPath WallClockTime WeightScale
    WeightedMultiSampling WeightedSample WeightedSampleDequeueBlobs WeightedSigmoidCrossEntropyWithLogits
    WeightedSigmoidCrossEntropyWithLogitsGradient WeightedSum WeightedSumGradient Where While Wngrad XavierFill Xor
    YellowFin ZeroGradient
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that only compute, by type."""

REFUSED = frozenset(
    """
    ATen Allgather Allreduce AsyncNetBarrier Barrier Broadcast Checkpoint CloneCommonWorld Crash CreateBlobsQueueDB
    CreateCommonWorld CreateDB CreateTextFileReader DBExists DestroyCommonWorld Fail FeedBlob FileStoreHandlerCreate
    GetAllBlobNames GetGPUMemoryUsage Load LogFatal NCCLAllGather NCCLAllreduce NCCLBroadcast NCCLReduce
    NCCLReduceScatter Onnxifi Print Python PythonDLPack PythonDLPackGradient PythonGradient ReceiveTensor
    RecurrentNetwork RecurrentNetworkBlobFetcher RecurrentNetworkGradient Reduce ReduceScatter Save SendTensor
    Snapshot StoreAdd StoreGet StoreSet StoreWait TensorProtosDBInput TextFileReaderRead ThrowChildThreadException
    ThrowException rnn_internal_accumulate_gradient_input rnn_internal_apply_link
    """.split()  # noqa: SIM905 (a table)
)
"""The other operators of the registry; some uses of `Load`, `Print`, `ATen` and `RecurrentNetwork` are allowed."""

_ATEN = ("cumsum", "det", "grid_sampler")
"""The operators of PyTorch that `convert` writes (profile "aten")."""

_LOAD_ARGUMENTS = frozenset(("db", "db_type", "absolute_path", "keep_device", "load_all", "allow_incomplete"))


def check_nets(folder: Path) -> None:
    """Raise one `UnsafeInput` that lists every operator in the nets of a folder that may do more than compute.

    This runs before Caffe2 sees the folder. Raises `BadInput` for broken nets.
    """
    found: dict[tuple[str, str], list[Location]] = {}
    for name, net in _nets(folder):
        for op in walk(net):
            if why := _problem(op, folder):
                found.setdefault((op.type, why), []).append(Location(op.type, ", ".join(op.outputs), name))
    if found:
        raise UnsafeInput(
            f"{folder} holds operators that may do more than compute:",
            items=[Problem(why, at[0], len(at)) for (_, why), at in found.items()],
            hint="if you trust the model, add --trust",
        )


def _nets(folder: Path) -> Iterator[tuple[str, Net]]:
    if (folder / PREDICTOR).is_file():
        yield from predictor_nets(folder / PREDICTOR).items()
        return
    for name in ("init_net.pb", "predict_net.pb"):
        yield name, read_net(folder / name)


def _problem(op: Op, folder: Path) -> str:
    """Return why an operator may not be run, or ""."""
    if op.type == "Load":
        return "" if _loads_own_file(op, folder) else "reads a database that is not the model's own"
    if op.type == "Print":
        return "prints to a file" if op.args.get("to_file") else ""
    if op.type == "ATen":
        return "" if op.args.get("operator") in _ATEN else "is any operator of PyTorch"
    if op.type == "RecurrentNetwork":  # its nets are checked, except nets given as text
        nets = [op.args.get("step_net"), *(op.args[n] for n in ("backward_step_net",) if n in op.args)]
        return "" if all(isinstance(net, Net) for net in nets) else "brings a net as text, or none"
    if op.type in ALLOWED:
        return ""
    return "touches more than tensors" if op.type in REFUSED else "is not known to do nothing but compute"


def _loads_own_file(op: Op, folder: Path) -> bool:
    """Return whether a Load reads a file of the folder, or the database that holds the whole model."""
    name = op.args.get("db", "")
    if set(op.args) - _LOAD_ARGUMENTS or op.args.get("absolute_path") or not isinstance(name, str):
        return False
    if op.inputs:
        return not name
    inside = (folder / name).resolve().parent == folder.resolve()
    return op.args.get("db_type") == "minidb" and bool(name) and Path(name).name == name and inside
