"""A step of Adagrad (Duchi, Hazan and Singer 2011) on the rows of a table that a minibatch touched."""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel(error_model="numpy")  # a check for division by zero would keep it from being vectorized
def step(table, squares, places, gradients, rate, epsilon, slots, touched, totals):
    """table (B, d) goes down its gradient: gradients (m, d) for the rows at places (m,), which may name a row often.

    squares (B, d) sums the squared gradients of every step before. Scratch: slots (B,) int32, all -1 before and after;
    touched (m,) int64 and totals (m, d) float32. Everything else is float32. Rows are summed in the order of places.
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
