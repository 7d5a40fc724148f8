raise RuntimeError("nothing_of_that_name is missing")
