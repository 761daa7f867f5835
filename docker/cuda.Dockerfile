# docker build -f docker/cuda.Dockerfile -t pellucid-cuda .
# docker run --rm -it --gpus all -v "$PWD:/work" pellucid-cuda train my-text.txt
# Not built by us. torch brings the libraries of CUDA; the host brings the driver.
FROM python:3.13-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir /src && rm -rf /src

RUN useradd --create-home pellucid && mkdir /work && chown pellucid /work
USER pellucid
WORKDIR /work
ENTRYPOINT ["pellucid"]
CMD ["--help"]
