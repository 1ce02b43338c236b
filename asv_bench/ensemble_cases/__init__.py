"""Cases of the comparison of ensembles with other libraries, a module per ensemble."""
