# docker build -f docker/cpu.Dockerfile -t pellucid .
# docker run --rm -it -v "$PWD:/work" --user "$(id -u):$(id -g)" pellucid train my-text.txt
# Not built by us: its steps after apt-get were run in a fresh environment of Python 3.13, and a
# training by a user that is not root.
FROM python:3.13-slim

# a C compiler for the fast loops; without it pellucid is slower, and says so
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir uv \
    && uv pip install --system --no-cache --torch-backend=cpu /src \
    && rm -rf /src

RUN useradd --create-home pellucid && mkdir /work && chown pellucid /work
USER pellucid
WORKDIR /work
ENTRYPOINT ["pellucid"]
CMD ["--help"]
