"""Ports: what the stages ask of MySQL, Spark, the lake and the warehouse."""
