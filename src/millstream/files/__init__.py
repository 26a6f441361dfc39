"""Files wherever they are: local disk, S3, HDFS and what else pyarrow knows, with one set of options."""
