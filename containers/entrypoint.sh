# `docker run IMAGE doctor` runs tangentbench; `docker run IMAGE snakemake --cores 2` or `bash` runs that program.
if [ $# -gt 0 ] && command -v "$1" >/dev/null 2>&1; then
    exec "$@"
fi
exec tangentbench "$@"
