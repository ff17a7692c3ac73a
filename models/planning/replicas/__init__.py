"""Which operators of queries get replicas, how many, and where: the problem, and what operators are worth."""
