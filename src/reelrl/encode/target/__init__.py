"""A quality to meet: which CRF gives it, scene by scene, with hardly a probe."""
