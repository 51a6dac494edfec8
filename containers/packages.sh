# The locked packages into /opt/venv. LOCKS names the files: the common one, and for a GPU the CUDA libraries besides;
# INDEX, where it is not empty, a further package index (torch's own for builds without CUDA).
# A file whose sum is in no lock is refused, wherever it comes from.
set -eu
python3 -m venv /opt/venv
pip() { /opt/venv/bin/pip install -qq --disable-pip-version-check --no-cache-dir --no-compile --no-deps --require-hashes "$@"; }
pip --only-binary :all: --requirement requirements-build.lock
options="--no-build-isolation ${INDEX:+--extra-index-url ${INDEX}}"
# Without the GPU's lock torch is the build without CUDA.
case "${LOCKS}" in
    *gpu*) ;;
    *)
        awk '/^[^ ]/ { torch = /^torch==/ } !torch' requirements.lock >/tmp/common.lock
        LOCKS="/tmp/common.lock requirements-torch-cpu.lock"
        ;;
esac
for lock in ${LOCKS}; do
    options="${options} --requirement ${lock}"
done
# shellcheck disable=SC2086
pip ${options}
# The user of the image cannot write here, so without this every start would compile torch's modules again. Left out is
# a test file of torch written for a newer Python than this may be.
/opt/venv/bin/python -m compileall -q -j 0 -x 'py312_intrinsics' /opt/venv/lib
