#!/bin/sh
# Runs a job on YARN in cluster mode: its driver is the application master, which YARN starts again where it was lost.
#
#   submit.sh [OPTIONS OF SPARK-SUBMIT ...] -- [OPTIONS OF millstream run ...] JOB.PY [ARGUMENTS ...]
#
# HADOOP_CONF_DIR names the cluster's configuration. ENVIRONMENT names an archive made by deploy/pack.py, if nodes have no
# millstream of their own; STORAGE a directory that all nodes reach (hdfs:///user/ada/state); ATTEMPTS how often YARN may
# start the driver (4, if the cluster allows as many: yarn.resourcemanager.am.max-attempts).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${HADOOP_CONF_DIR:?submit.sh: set HADOOP_CONF_DIR to the directory with yarn-site.xml of the cluster}"
: "${STORAGE:?submit.sh: set STORAGE to a directory that outlives drivers, such as hdfs:///user/ada/state/orders}"

spark=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  # Kept as words of the shell, quoted, so that options with blanks stay whole.
  spark="$spark '$(printf %s "$1" | sed "s/'/'\\\\''/g")'"
  shift
done
[ $# -gt 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shift

program=
for word in "$@"; do
  case $word in *.py) program=$word; break ;; esac
done
[ -f "$program" ] || { echo "submit.sh: no program JOB.PY is among: $*" >&2; exit 2; }

# The program travels as a file, so it is named without its directory there.
arguments=
for word in "$@"; do
  [ "$word" = "$program" ] && word=$(basename "$program")
  arguments="$arguments '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done

if [ -z "${SPARK_HOME:-}" ]; then
  SPARK_HOME=$("${PYTHON:-python3}" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
  export SPARK_HOME
fi
if [ -n "${ENVIRONMENT:-}" ]; then
  spark="--archives '$ENVIRONMENT#environment' \
    --conf spark.yarn.appMasterEnv.PYTHONPATH=./environment --conf spark.executorEnv.PYTHONPATH=./environment $spark"
fi
eval exec '"$SPARK_HOME/bin/spark-submit"' --master yarn --deploy-mode cluster \
  --conf "spark.yarn.maxAppAttempts=${ATTEMPTS:-4}" \
  --conf spark.yarn.am.attemptFailuresValidityInterval=1h \
  --conf spark.yarn.am.waitTime=10m \
  --conf spark.dynamicAllocation.enabled=false \
  --files "'$program'" "$spark" "'$here/application.py'" \
  run --recover --no-progress -D "'high-availability.storageDir=$STORAGE'" "$arguments"
