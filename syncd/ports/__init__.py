"""Ports of the stages to MySQL, Spark, the lake and the warehouse."""
