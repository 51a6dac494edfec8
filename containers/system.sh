# What the image needs of the system: Python, OpenMP's runtime, git for provenance and DVC, and a user who is not root.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends ca-certificates git libgomp1 python3 python3-venv >/dev/null
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/* /var/cache/debconf/* /var/log/apt /var/log/dpkg.log
groupadd --gid 10001 bench
useradd --uid 10001 --gid 10001 --create-home --no-log-init bench
