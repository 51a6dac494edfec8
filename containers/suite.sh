# The package itself, in place, with the core that was compiled before; and folders that any user may write to.
set -eu
/opt/venv/bin/pip install -qq --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation \
    --config-settings=wheel.cmake=false --editable /suite
rm -rf /suite/build ~root/.cache
mkdir -p /suite/data /suite/results /suite/logs /suite/.snakemake
chmod 1777 /suite/data /suite/results /suite/logs /suite/.snakemake
