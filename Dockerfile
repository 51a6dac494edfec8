# The suite with CUDA builds of torch and jax; without a GPU the same image runs on the CPU. See docs/containers.md.
#   docker build -t tangentbench --build-arg VERSION=0.1.0 --build-arg COMMIT="$(git rev-parse HEAD)" .
#   docker run --rm --gpus all -v "$PWD/results:/suite/results" tangentbench run npk_fig6
# The CPU image: --build-arg BASE_IMAGE=docker.io/library/debian:bookworm-slim --build-arg LOCKS=requirements.lock
#   --build-arg INDEX=https://download.pytorch.org/whl/cpu
# containers/tangentbench.def has the same steps for Apptainer; a test compares the two.

ARG BASE_IMAGE=docker.io/nvidia/cuda:13.0.1-runtime-ubuntu24.04@sha256:c3fde347d52d578c84fd644bc177bc7ec333feaf11550d990da4084d7612e4c7

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS system
COPY containers/system.sh /opt/tangentbench/
RUN sh /opt/tangentbench/system.sh

FROM system AS core
WORKDIR /suite
COPY containers/core.sh /opt/tangentbench/
COPY requirements.lock ./
COPY src/native src/native
RUN sh /opt/tangentbench/core.sh

# Packages change with the locks only, so that an edit of the suite leaves the image's one large layer alone.
FROM system AS packages
ARG LOCKS="requirements.lock requirements-gpu.lock"
ARG INDEX=""
WORKDIR /suite
COPY containers/packages.sh /opt/tangentbench/
COPY requirements.lock requirements-build.lock requirements-gpu.lock requirements-torch-cpu.lock ./
RUN LOCKS="${LOCKS}" INDEX="${INDEX}" sh /opt/tangentbench/packages.sh

FROM packages
ENV PATH=/opt/venv/bin:${PATH} \
    TANGENTBENCH_CORE=/suite/src/tangentbench/kernels/_cntk_core.so \
    MPLCONFIGDIR=/tmp/matplotlib \
    XDG_CACHE_HOME=/tmp/cache
COPY containers/suite.sh containers/entrypoint.sh /opt/tangentbench/
COPY . .
COPY --from=core /suite/src/tangentbench src/tangentbench
RUN sh /opt/tangentbench/suite.sh

# Last, because they change at every commit.
ARG VERSION=unknown
ARG COMMIT=unknown
ENV TANGENTBENCH_COMMIT=${COMMIT}
LABEL org.opencontainers.image.title="tangentbench" \
      org.opencontainers.image.description="A benchmark suite for the theory of wide, deep and gated networks" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
USER 10001:10001
ENTRYPOINT ["sh", "/opt/tangentbench/entrypoint.sh"]
CMD ["--help"]
