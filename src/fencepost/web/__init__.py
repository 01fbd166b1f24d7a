"""The page: brokers, topics, messages, groups, transactions, pipelines. A thin face of what is below it."""
