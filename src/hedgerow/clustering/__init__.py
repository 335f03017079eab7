"""Average-linkage clusters of a pool, exact, certified or accelerated (paper, section 2 and appendix A.2)."""
