"""The layers of a convolutional network that are no matrix products, on images (n, h, w, c) float32."""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel
def convolve_channels(images, weights, bias, stride, before, out):
    """out (n, h / stride, w / stride, c): each channel by its own filter, weights (k, k, c), and relu6 after the bias.

    before: how many rows and columns of zeros are in front of the image; as many as needed are behind it.
    """
    side = weights.shape[0]
    for image in range(out.shape[0]):
        for row in range(out.shape[1]):
            for column in range(out.shape[2]):
                target = out[image, row, column]
                for channel in range(target.size):
                    target[channel] = bias[channel]
                for down in range(side):
                    y = row * stride + down - before
                    if y < 0 or y >= images.shape[1]:
                        continue
                    for right in range(side):
                        x = column * stride + right - before
                        if x < 0 or x >= images.shape[2]:
                            continue
                        source, weight = images[image, y, x], weights[down, right]
                        for channel in range(target.size):
                            target[channel] += source[channel] * weight[channel]
                for channel in range(target.size):
                    target[channel] = min(max(target[channel], np.float32(0)), np.float32(6))


@kernel
def cap(rows, bias):
    """Adds the bias (c,) to every row of rows (m, c), in place, and limits the sums to 0 to 6 (relu6)."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            rows[row, column] = min(max(rows[row, column] + bias[column], np.float32(0)), np.float32(6))
