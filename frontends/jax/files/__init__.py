"""Files and objects that hold JAX programs: files of jax.export, StableHLO modules, and objects in memory."""
