# source env.sh [SCRIPT...]
# Programs that this step runs find the workshop, and what lies in src of these other scripts.
folders="${CM_TMP_CURRENT_SCRIPT_PATH}/../workshop/src"
for name in "$@"; do
  folders+=":${CM_TMP_CURRENT_SCRIPT_PATH}/../${name}/src"
done
export PYTHONPATH="${folders}${PYTHONPATH:+:${PYTHONPATH}}"
