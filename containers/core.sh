# The native cores: portable, AVX2 (x86-64-v3) and AVX-512 (v4) code in one library, chosen at run time.
# The compiler stays in this stage; only the libraries, put into src/tangentbench, go into the image.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends g++ >/dev/null
python3 -m venv /opt/build
# these two of the lock, each with its sums
awk '/^[^ ]/ { take = /^(cmake|ninja)==/ } take' requirements.lock >/tmp/build.lock
/opt/build/bin/pip install -qq --disable-pip-version-check --no-cache-dir --no-deps --require-hashes --requirement /tmp/build.lock
PATH=/opt/build/bin:${PATH}
cmake -S src/native -B /tmp/core -G Ninja -DSKBUILD_STATE=editable
cmake --build /tmp/core
