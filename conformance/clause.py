"""The contract's clauses: id, level and one line each.

A *clause* is one sentence of the contract. Every case proves exactly one clause and names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Level(str, Enum):
    """How strictly a clause binds a kernel."""

    #: The right answer, within the bound; anything else fails.
    MUST_COMPUTE = "must-compute"
    #: A clean Python exception before anything is written; a silent answer fails.
    MUST_REFUSE = "must-refuse"
    #: The right answer or a clean refusal.
    COMPUTE_OR_REFUSE = "compute-or-refuse"
    #: Measured and reported, never a failure by itself.
    PROPERTY = "property"


@dataclass(frozen=True)
class Clause:
    """One sentence of the contract."""

    id: str
    level: Level
    statement: str

    @property
    def family(self) -> str:
        """``MASK`` for ``MASK-1``."""
        return self.id.rpartition("-")[0]


_COMPUTE, _REFUSE = Level.MUST_COMPUTE, Level.MUST_REFUSE
_EITHER, _PROPERTY = Level.COMPUTE_OR_REFUSE, Level.PROPERTY

CLAUSES: Mapping[str, Clause] = MappingProxyType(
    {
        id: Clause(id, level, statement)
        for id, level, statement in (
            ("MASK-1", _COMPUTE, "every H >= 1 is computed; the denominator is H"),
            ("MASK-2", _COMPUTE, "what lies between the rows never reaches the result"),
            (
                "MASK-3",
                _COMPUTE,
                "nothing is stored outside the H columns of any output, gradient or statistic",
            ),
            ("MASK-4", _COMPUTE, "LayerNorm's centred lanes beyond H add nothing, whatever the row's mean"),
            ("MASK-5", _PROPERTY, "the result does not depend on masked-off lanes loaded without `other`"),
            ("ROWS-1", _COMPUTE, "zero rows give empty outputs and a zero dweight"),
            ("ROWS-2", _COMPUTE, "every row is written and dweight sums every row, whatever their number"),
            ("ROWS-3", _COMPUTE, "rank 1 to 5 gives the values of the flattened call"),
            ("STRIDE-1", _COMPUTE, "a row stride other than H is honoured, for each operand on its own"),
            ("STRIDE-2", _EITHER, "a last-dimension stride other than 1 is honoured or refused"),
            ("STRIDE-3", _EITHER, "leading dimensions that cannot be flattened are honoured or refused"),
            (
                "STRIDE-4",
                _EITHER,
                "stride 0 is honoured or refused; the dy of y.sum().backward() is computed",
            ),
            ("STRIDE-5", _COMPUTE, "a base pointer aligned to one element only is honoured"),
            ("STRIDE-6", _COMPUTE, "outputs are contiguous, or have the strides of x, as declared"),
            ("ALIAS-1", _COMPUTE, "an input that is not declared in-place is bit-identical afterwards"),
            ("ALIAS-2", _COMPUTE, "a declared in-place call equals the out-of-place call bit for bit"),
            ("ALIAS-3", _EITHER, "x and residual that share memory are honoured or refused"),
            ("ALIAS-4", _COMPUTE, "outputs share no storage with inputs or each other unless declared"),
            ("ALIAS-5", _COMPUTE, "a second forward leaves the first one's outputs and saved tensors alone"),
            ("EPS-1", _COMPUTE, "eps stands inside the square root, or where declared"),
            ("EPS-2", _COMPUTE, "every call's own eps is used"),
            ("EPS-3", _REFUSE, "eps <= 0, NaN and inf are refused or warned about"),
            ("EPS-4", _COMPUTE, "eps enters once: the returned rstd has it"),
            ("EPS-5", _COMPUTE, "eps is neither rounded to the input's dtype nor clamped"),
            ("EPS-6", _COMPUTE, "a zero row gives 0 (LayerNorm: bias) and finite gradients"),
            (
                "DTYPE-1",
                _COMPUTE,
                "outputs and dx have the dtype of x, dweight that of weight, statistics float32",
            ),
            ("DTYPE-2", _COMPUTE, "a mix of dtypes is computed or refused as declared, never reinterpreted"),
            (
                "DTYPE-3",
                _REFUSE,
                "integers, booleans, complex and float8 are refused; float64 is computed or refused",
            ),
            ("DTYPE-4", _COMPUTE, "weight is widened to float32 before the product"),
            ("SHAPE-1", _REFUSE, "operands that do not fit together are refused"),
            ("SHAPE-2", _COMPUTE, "weight and bias may be None, where declared optional"),
            ("ACC-1", _COMPUTE, "every element lies within its error bound"),
            ("ACC-2", _COMPUTE, "residual_out is the correctly rounded sum, bit for bit"),
            ("ACC-3", _COMPUTE, "the normalized value comes from the float32 sum, or as declared"),
            ("ACC-4", _COMPUTE, "the mean signed error shows no drift"),
            ("ACC-5", _COMPUTE, "dweight and dbias accumulate in float32 over all rows"),
            ("ACC-6", _COMPUTE, "a chain of 72 fused-add blocks stays within the reference chain's bound"),
            ("MAG-1", _COMPUTE, "small magnitudes: the squares do not underflow"),
            ("MAG-2", _COMPUTE, "magnitudes near the top of float16 stay finite and within bound"),
            ("MAG-3", _COMPUTE, "LayerNorm with a mean far above the standard deviation is within bound"),
            ("MAG-4", _COMPUTE, "one spike of 1e3 among 1e-2 is within bound"),
            ("MAG-5", _PROPERTY, "where float32 squares overflow, what comes out is reported"),
            ("NONFINITE-1", _COMPUTE, "a NaN or an infinity stays in its own row"),
            (
                "NONFINITE-2",
                _COMPUTE,
                "the same in backward; dweight is non-finite only where the reference is",
            ),
            ("GRAD-1", _COMPUTE, "dx, dresidual, dweight and dbias lie within bound"),
            ("GRAD-2", _COMPUTE, "both outputs' gradients count: only dy, only dresidual_out, both"),
            ("GRAD-3", _COMPUTE, "every subset of requires_grad: what is asked for comes, the rest is None"),
            ("GRAD-4", _COMPUTE, "backward twice gives the same bits"),
            ("GRAD-5", _EITHER, "double backward is right or refused"),
            ("GRAD-6", _COMPUTE, "the gradients are the same under activation checkpointing"),
            ("STATE-1", _COMPUTE, "a sequence of calls gives the bits of fresh processes"),
            ("DEVICE-1", _COMPUTE, "tensors on a device that is not current are computed there"),
            ("DEVICE-2", _REFUSE, "operands on different devices are refused"),
            ("DEVICE-3", _COMPUTE, "a call on a side stream is ordered on that stream"),
            ("DEVICE-4", _COMPUTE, "every visible device in turn, then in reverse, in one process"),
            ("DEVICE-5", _COMPUTE, "several threads at once, each on its own device or stream"),
            ("OFFSET-1", _COMPUTE, "element offsets past 2^31 are honoured"),
            ("OFFSET-2", _COMPUTE, "a dense tensor past 2^31 elements is computed"),
            ("OFFSET-3", _COMPUTE, "byte offsets between 2 and 4 GiB are honoured"),
            ("DET-1", _COMPUTE, "forward and dx give the same bits in every run; dweight as declared"),
            ("DET-2", _PROPERTY, "a row's result does not depend on the other rows"),
            ("GRAPH-1", _COMPUTE, "a captured graph replays on new contents"),
            ("COMPILE-1", _COMPUTE, "under torch.compile the values are those of eager"),
            ("SPEED-1", _PROPERTY, "bytes that must move over the time, as a ratio to a copy"),
        )
    }
)

#: What each clause asks, by id and in the order of the contract.
STATEMENTS: Mapping[str, str] = MappingProxyType({id: clause.statement for id, clause in CLAUSES.items()})
