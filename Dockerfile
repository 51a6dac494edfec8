# The suite in a CUDA image. On a machine without a GPU it runs on the CPU.
# Build: docker build -t tangentbench .      Run: docker run --rm --gpus all -v "$PWD/results:/suite/results" tangentbench list

ARG BASE_IMAGE=docker.io/nvidia/cuda:13.0.1-runtime-ubuntu24.04
FROM ${BASE_IMAGE}

ENV DEBIAN_FRONTEND=noninteractive \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates g++ git make python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 bench \
    && install -d -o bench -g bench /suite

USER 10001
WORKDIR /suite

COPY --chown=bench:bench requirements.lock ./
RUN python3 -m venv /home/bench/venv \
    && /home/bench/venv/bin/pip install --no-deps --requirement requirements.lock \
    && /home/bench/venv/bin/pip install "$(grep '^torch==' requirements.lock)"
ENV PATH=/home/bench/venv/bin:${PATH}

COPY --chown=bench:bench . .
RUN pip install --no-deps --no-build-isolation --editable .

ENTRYPOINT ["tangentbench"]
CMD ["--help"]
