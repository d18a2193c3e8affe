"""The options of the Caffe2 backend."""

from convert.plugin import Option

PROFILE = Option(
    "profile", "plain", "The kernels that a Caffe2 net asks for.", choices=("plain", "nnpack", "ideep", "aten")
)
LAYOUT = Option("caffe2_layout", "nets", "The files of a Caffe2 model.", choices=("nets", "metanet", "mobile"))
