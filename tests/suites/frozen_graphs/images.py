"""Images and layers: convolutions, pools, resizes, crops, with sizes that are inputs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import above, f32, i32, row

X = above(2, 6, 8, 3)
W = f32(3, 3, 3, 4)
SIZES = ((2, 14, 41, 2), (2, 14, 83, 23), (8, 14, 47, 45), (5, 3, 1, 6))
PIXELS = (np.arange(128) * 37 % 127).reshape(2, 4, 4, 4)
BOXES = np.float32([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.3, 1.4, 0.6]])
FED = "static open old"


def resized(method: str, antialias: bool = False) -> object:
    return lambda x, s: tf.image.resize(x, s, method, antialias=antialias)


def pixels(dims: list[int | None], function: object) -> object:
    """Return the function of images of which only these dims are known."""
    return lambda x, *more: function(tf.ensure_shape(x, dims), *more)  # type: ignore[operator]


PICTURE = [None, None, None, 3]

ROWS = [
    *(
        row(f"conv_{p.lower()}_{s}", pixels(PICTURE, lambda x, p=p, s=s: tf.nn.conv2d(x, W, s, p)), [X], forms=FED)
        for p in ("SAME", "VALID")
        for s in (1, 2)
    ),
    row("conv_with_padding", pixels(PICTURE, lambda x: tf.nn.conv2d(x, W, 1, [[0, 0], [1, 2], [0, 1], [0, 0]])), [X]),
    row("conv_dilated", pixels(PICTURE, lambda x: tf.nn.conv2d(x, W, 1, "SAME", dilations=2)), [X]),
    row(
        "conv_of_fed_kernel",
        lambda x, w: tf.nn.conv2d(tf.ensure_shape(x, PICTURE), w, 1, "SAME"),
        [X, W],
        [X, f32(2, 3, 3, 4)],
    ),
    row(
        "conv_of_fed_kernel_valid",
        lambda x, w: tf.nn.conv2d(tf.ensure_shape(x, PICTURE), w, 2, "VALID"),
        [X, W],
        [X, f32(2, 3, 3, 4)],
    ),
    row(
        "conv_of_computed_kernel",
        lambda x, n: tf.nn.conv2d(tf.ensure_shape(x, PICTURE), tf.ones([n, n, 3, 2]), 1, "VALID"),
        [X, i32(2)],
        [X, i32(3)],
    ),
    row("depthwise", pixels(PICTURE, lambda x: tf.nn.depthwise_conv2d(x, f32(3, 3, 3, 2), [1, 1, 1, 1], "SAME")), [X]),
    row(
        "depthwise_of_fed_kernel",
        lambda x, w: tf.nn.depthwise_conv2d(tf.ensure_shape(x, PICTURE), w, [1, 1, 1, 1], "SAME"),
        [X, f32(3, 3, 3, 2)],
        [X, f32(2, 5, 3, 2)],
    ),
    row(
        "separable",
        pixels(PICTURE, lambda x: tf.nn.separable_conv2d(x, f32(3, 3, 3, 1), f32(1, 1, 3, 4), [1, 1, 1, 1], "SAME")),
        [X],
    ),
    row("conv_1d", pixels([None, None, 3], lambda x: tf.nn.conv1d(x, f32(3, 3, 4), 1, "SAME")), [above(2, 6, 3)]),
    row(
        "conv_3d",
        pixels([None, None, None, None, 1], lambda x: tf.nn.conv3d(x, f32(2, 2, 2, 1, 3), [1] * 5, "SAME")),
        [above(1, 4, 4, 4, 1)],
    ),
    row(
        "conv_transposed",
        pixels(
            PICTURE,
            lambda x: tf.nn.conv2d_transpose(
                x, f32(3, 3, 2, 3), tf.stack([tf.shape(x)[0], 2 * tf.shape(x)[1], 2 * tf.shape(x)[2], 2]), 2, "SAME"
            ),
        ),
        [X],
        forms=FED,
    ),
    row(
        "conv_transposed_to_fed",
        lambda x, s: tf.nn.conv2d_transpose(tf.ensure_shape(x, PICTURE), f32(3, 3, 2, 3), s, 2, "SAME"),
        [X, i32([2, 12, 16, 2])],
        [X, i32([2, 11, 15, 2])],
    ),
    row("max_pool", pixels(PICTURE, lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME")), [X]),
    row("avg_pool", pixels(PICTURE, lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME")), [X]),
    row("max_pool_with_places", pixels([None] * 4, lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "VALID")), [X]),
    row(
        "max_pool_with_places_of_all",
        pixels([None] * 4, lambda x: tf.nn.max_pool_with_argmax(x, 3, 1, "SAME", include_batch_in_index=True)),
        [X],
    ),
    row(
        "pool_of_fed_kernel",
        lambda x, k: tf.raw_ops.MaxPoolV2(input=x, ksize=k, strides=[1, 2, 2, 1], padding="VALID"),
        [X, i32([1, 2, 2, 1])],
        forms="static",
        gap="ksize",
    ),
    row("bias", pixels(PICTURE, lambda x: tf.nn.bias_add(x, f32(3))), [X]),
    row(
        "batch_norm",
        pixels(PICTURE, lambda x: tf.nn.batch_normalization(x, f32(3), above(3), f32(3), above(3), 1e-3)),
        [X],
    ),
    row("local_response", pixels(PICTURE, lambda x: tf.nn.local_response_normalization(x, 1)), [X]),
    row(
        "extracted_patches",
        lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
        [X],
        forms="static",
    ),
    row(
        "patches_of_any_size",
        pixels(PICTURE, lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME")),
        [X],
        [X[:, :5, :7]],
        forms="open",
    ),
    row(
        "patches_of_any_size_and_step",
        pixels(PICTURE, lambda x: tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 3, 1], [1, 1, 2, 1], "SAME")),
        [X],
        [X[:, :5, :7]],
        forms="open",
    ),
    *(
        row(f"resized_{m}", lambda x, m=m: tf.image.resize(x, [9, 5], m), [X])
        for m in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "gaussian")
    ),
    *(
        row(f"resized_{m}_to_fed", resized(m), [X, i32([9, 5])], [X, i32([6, 8])], [X, i32([3, 17])], forms=FED)
        for m in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic")
    ),
    *(
        row(f"resized_{m}_smoothly_to_fed", resized(m, True), [X, i32([3, 5])], [X, i32([12, 4])])
        for m in ("bilinear", "bicubic", "lanczos3")
    ),
    row("resized_to_twice", lambda x: tf.image.resize(x, tf.shape(x)[1:3] * 2), [X], forms=FED),
    row("resized_to_twice_cubic", lambda x: tf.image.resize(x, tf.shape(x)[1:3] * 2, "bicubic"), [X], forms=FED),
    row(
        "resized_to_half_area",
        lambda x: tf.image.resize(x, tf.shape(x)[1:3] // 2, "area"),
        [X],
        [X[:, :5, :7]],
        forms=FED,
    ),
    row(
        "resized_by_v1",
        lambda x, s: tf.compat.v1.image.resize_bilinear(x, s, align_corners=True),
        [X, i32([9, 5])],
        forms=FED,
    ),
    row(
        "resized_cubic_by_v1",
        lambda x, s: tf.compat.v1.image.resize_bicubic(x, s, align_corners=True),
        [X, i32([9, 5])],
        [X, i32([1, 2])],
        forms=FED,
    ),
    row(
        "resized_cubic_by_old_v1",
        lambda x, s: tf.compat.v1.image.resize_bicubic(x, s),
        [X, i32([9, 5])],
        [X, i32([1, 2])],
        forms=FED,
    ),
    row(
        "resized_area_by_v1",
        lambda x, s: tf.compat.v1.image.resize_area(x, s, align_corners=True),
        [X, i32([9, 5])],
        forms=FED,
    ),
    row("resized_one_picture", lambda x: tf.image.resize(x, [4, 4]), [X[0]]),
    row("resized_with_its_ratio", lambda x: tf.image.resize(x, [9, 9], preserve_aspect_ratio=True), [X]),
    row("resized_with_a_pad", lambda x: tf.image.resize_with_pad(x, 9, 9), [X], forms="static"),
    row("crop_and_resize", lambda x, b, i: tf.image.crop_and_resize(x, b, i, [4, 5]), [X, BOXES, i32([0, 1, 0])]),
    row(
        "crop_and_resize_to_fed",
        tf.image.crop_and_resize,
        [X, BOXES, i32([0, 1, 0]), i32([4, 5])],
        [X, BOXES, i32([0, 1, 0]), i32([1, 3])],
        forms=FED,
    ),
    row(
        "crop_to_fed_nearest",
        lambda x, b, i, s: tf.image.crop_and_resize(x, b, i, s, "nearest", 7.0),
        [X, BOXES, i32([0, 1, 0]), i32([4, 5])],
        [X, BOXES, i32([0, 1, 0]), i32([3, 1])],
    ),
    row("cropped_to_a_box", lambda x, y: tf.image.crop_to_bounding_box(x, y, 1, 3, 4), [X, i32(2)], forms="static"),
    row("cropped_in_the_middle", lambda x: tf.image.central_crop(x, 0.5), [X], forms="static open"),
    row("flipped", lambda x: [tf.image.flip_left_right(x), tf.image.flip_up_down(x)], [X]),
    row("turned", lambda x: tf.image.rot90(x), [X], forms="static"),
    row(
        "turned_by_fed",
        lambda x, k: tf.image.rot90(x, k),
        [X[:, :6, :6], i32(1)],
        [X[:, :6, :6], i32(2)],
        forms="static",
    ),
    row("grey", tf.image.rgb_to_grayscale, [X], forms="static"),
    row("hues", lambda x: tf.image.adjust_hue(x / 2, 0.1), [X], forms="static"),
    row("standardized", tf.image.per_image_standardization, [X], forms="static"),
    row("suppressed", lambda b, s: tf.image.non_max_suppression(b, s, 2, 0.4), [BOXES, np.float32([0.5, 0.9, 0.2])]),
    row(
        "suppressed_to_fed",
        tf.image.non_max_suppression,
        [BOXES, np.float32([0.5, 0.9, 0.2]), i32(2)],
        [BOXES, np.float32([0.5, 0.9, 0.2]), i32(1)],
    ),
    *(
        row(f"{name}_of_{np.dtype(kind).name}", function, [PIXELS.astype(kind)])
        for kind in (np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64)
        for name, function in (
            ("nearest", lambda x: tf.image.resize(x, [6, 7], "nearest")),
            ("space_to_depth", lambda x: tf.nn.space_to_depth(tf.ensure_shape(x, [None, 4, 4, 4]), 2)),
            ("depth_to_space", lambda x: tf.nn.depth_to_space(tf.ensure_shape(x, [None, 4, 4, 4]), 2)),
        )
    ),
    *(
        row(
            f"wide_pixels_{mode}",
            lambda x, s, more=more: tf.raw_ops.ResizeNearestNeighbor(
                images=tf.ensure_shape(x, PICTURE), size=s, **more
            ),
            *([np.arange(3 * a * b).reshape(1, a, b, 3), i32([c, d])] for a, b, c, d in SIZES),
            forms="open",
        )
        for mode, more in (
            ("at_corners", {}),
            ("at_halves", {"half_pixel_centers": True}),
            ("aligned", {"align_corners": True}),
        )
    ),
    row("channels_first", lambda x: tf.transpose(x, [0, 3, 1, 2]) * 2, [X], forms=FED),
    row("mean_of_pixels", lambda x: tf.reduce_mean(x, [1, 2]), [X], forms=FED),
    row(
        "network",
        pixels(
            PICTURE, lambda x: tf.nn.softmax(tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(x, W, 2, "SAME") + f32(4)), [1, 2]))
        ),
        [X],
        forms=FED,
    ),
]
