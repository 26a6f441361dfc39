#!/bin/sh
# Starts a Spark master or worker in the foreground, from an installation of Spark or of PySpark:
#
#   spark.sh master --host ADDRESS [--port 7077]
#   spark.sh worker --host ADDRESS [--cores N] [--memory 4g] spark://MASTER:7077
#
# SPARK_HOME names the installation; without it that of the Python on the path (or $PYTHON) is taken. An init system or a
# container restarts it; millstream's jobs go on when executors come back.
set -eu

case "${1:-}" in
  master) class=org.apache.spark.deploy.master.Master ;;
  worker) class=org.apache.spark.deploy.worker.Worker ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
shift

if [ -z "${SPARK_HOME:-}" ]; then
  SPARK_HOME=$("${PYTHON:-python3}" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))') || {
    echo "spark.sh: there is no Spark: set SPARK_HOME, or install PySpark (pip install pyspark)" >&2
    exit 1
  }
fi
export SPARK_HOME
# Workers remove what executors of ended applications leave; a master forgets a silent worker after 30 s.
export SPARK_WORKER_OPTS="-Dspark.worker.cleanup.enabled=true ${SPARK_WORKER_OPTS:-}"
export SPARK_MASTER_OPTS="-Dspark.worker.timeout=30 -Dspark.master.rest.enabled=false ${SPARK_MASTER_OPTS:-}"
exec "$SPARK_HOME/bin/spark-class" "$class" "$@"
