"""Writes and reads tables by Spark: parquet.py JARS, on the store that the environment names."""

import sys

from pyspark.sql import SparkSession

ROWS = 1_000_000


def main() -> None:
    jars = sys.argv[1]
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraClassPath", jars).getOrCreate()
    table = spark.range(ROWS).selectExpr("id", "id * id as square", "cast(id as string) as text", "id % 7 as part")
    for _ in range(2):
        table.write.mode("overwrite").partitionBy("part").parquet("terrace:///spark/squares")
    table.limit(10).write.mode("append").partitionBy("part").parquet("terrace:///spark/squares")
    found = spark.read.parquet("terrace:///spark/squares")
    wanted = ROWS + 10, sum(n * n for n in range(ROWS)) + sum(n * n for n in range(10))
    assert (found.count(), found.selectExpr("sum(square)").collect()[0][0]) == wanted
    found.filter("part = 3").write.csv("terrace:///spark/third")
    assert spark.read.csv("terrace:///spark/third").count() == found.filter("part = 3").count()
    spark.stop()


main()
