"""Types of NumPy arrays."""

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
