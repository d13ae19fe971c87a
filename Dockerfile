# The server and the agent, in one image: docs/operating.md says how to run it.
#
#     docker build -t kernel-harness .
#
# BASE has to have an apt-get, or all of SYSTEM_PACKAGES already (then: --build-arg SYSTEM_PACKAGES=). The toolkit in it
# compiles submissions; torch brings the libraries that they run with.
ARG BASE=nvidia/cuda:13.0.1-devel-ubuntu24.04

FROM ${BASE} AS system
ARG SYSTEM_PACKAGES="python3 python3-dev python3-pip python3-venv g++"
RUN if [ -n "$SYSTEM_PACKAGES" ]; then \
        apt-get update -q && \
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $SYSTEM_PACKAGES && \
        rm -rf /var/lib/apt/lists/*; \
    fi
# Nobody's id on a usual machine, and no password. What is to be kept is in /data.
RUN echo "harness:x:10001:" >> /etc/group && \
    echo "harness:x:10001:10001::/data:/usr/sbin/nologin" >> /etc/passwd && \
    mkdir /data && chown 10001:10001 /data

FROM system AS build
ARG PIP_OPTIONS=
RUN python3 -m venv --system-site-packages --without-pip /opt/harness
WORKDIR /build
COPY pyproject.toml README.md ./
COPY harness harness
COPY server server
RUN /opt/harness/bin/python -m pip install --no-cache-dir --disable-pip-version-check $PIP_OPTIONS ".[server]"

FROM system
COPY --from=build /opt/harness /opt/harness
COPY problems /srv/problems
WORKDIR /srv
ENV PATH=/opt/harness/bin:$PATH HOME=/data HARNESS_DATA=/data/server HARNESS_CACHE_DIR=/data/cache HARNESS_PORT=8000
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python3", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"HARNESS_PORT\"]}/readyz', timeout=4)"]
ENTRYPOINT ["harness"]
# Devices are the agents' business, which are containers of their own.
CMD ["serve", "--host", "0.0.0.0", "--devices", "none"]
