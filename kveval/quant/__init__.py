"""Cache formats as tensor functions: what K and V look like after a quantized cache.

``formats`` and ``granularity`` name the choices and import no torch; ``rounding`` applies them.
"""
