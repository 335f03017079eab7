"""A step of Adagrad (Duchi, Hazan and Singer 2011) on those rows of a table that a minibatch uses."""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel(error_model="numpy")  # checks for division by zero prevent vectorization
def step(table, squares, places, gradients, rate, epsilon, slots, touched, totals):
    """Updates table (B, d) by gradients (m, d) of the rows places (m,), in which a row may occur several times.

    squares (B, d): the sums of squared gradients of all earlier steps. Gradients of a row are summed in the order of
    places. Scratch: slots (B,) int32, all -1 before and after; touched (m,) int64 and totals (m, d) float32. Everything
    else is float32.
    """
    count = 0
    for i in range(places.size):
        place = places[i]
        slot = slots[place]
        if slot < 0:
            slots[place] = count
            touched[count] = place
            for t in range(table.shape[1]):
                totals[count, t] = gradients[i, t]
            count += 1
        else:
            for t in range(table.shape[1]):
                totals[slot, t] += gradients[i, t]
    for slot in range(count):
        place = touched[slot]
        slots[place] = -1
        for t in range(table.shape[1]):
            total = totals[slot, t]
            squares[place, t] += total * total
            table[place, t] -= rate * total / (np.sqrt(squares[place, t]) + epsilon)
