"""What counts as right, as plain numbers."""

import math


def ulp(value, mantissa_bits=7):
    """One unit in the last place of a 16-bit float (bf16: 7 stored mantissa bits) at `value`."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    return 2.0**(math.frexp(abs(value))[1] - 1 - mantissa_bits)


def forward(error, naive_error, distance, naive_distance, largest):
    """At most twice the error of the same formula in working precision, plus an ulp."""
    allowed = 2 * naive_error + ulp(largest) + 1e-5 * largest
    allowed_distance = 2 * naive_distance + 1e-6
    words = f"max error {error:.2e} of {allowed:.2e}, cosine distance {distance:.1e} of {allowed_distance:.1e}"
    return bool(error <= allowed and distance <= allowed_distance), words


def all_of(*verdicts):
    """Passes where every one does; says what each says."""
    return all(passed for passed, _ in verdicts), "; ".join(words for _, words in verdicts)


def named(name, judged):
    return judged[0], f"{name}: {judged[1]}"


def lse(error, naive_error, largest):
    """As forward, in f32; 1e-6 more, since the logarithm of a sum may be near 0."""
    allowed = 2 * naive_error + ulp(largest, 23) + 1e-5 * largest + 1e-6
    return bool(error <= allowed), f"max error {error:.2e} of {allowed:.2e}"


def mask(wrong_rows, differing_rows, rows, well_posed, kept_ratio):
    """`well_posed`: 1 - top_p is far above what mass may be off by, so that only near ties are excused, 2 % of rows.
    Otherwise any number of rows may end elsewhere, but all together must keep as much as the truth, to 5 %."""
    words = f"{differing_rows} of {rows} rows differ from f64, {wrong_rows} of them without an excuse"
    if abs(kept_ratio - 1) > 0.05:
        return False, f"{words}; keeps {kept_ratio:.3f} times what the rule keeps"
    return wrong_rows == 0 and (differing_rows <= 0.02 * rows or not well_posed), words
