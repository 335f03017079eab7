"""The pool's data: matrices and vectors from arrays, tables and files; the user's ids; tables out."""

from hedgerow.pool.matrices import (
    Matrix,
    as_matrix,
    as_vector,
    check_target,
    count_rows,
    holds_vector,
    make_table,
    open_matrix,
    read_metadata,
    write_table,
)

__all__ = [
    "Matrix",
    "as_matrix",
    "as_vector",
    "check_target",
    "count_rows",
    "holds_vector",
    "make_table",
    "open_matrix",
    "read_metadata",
    "write_table",
]
