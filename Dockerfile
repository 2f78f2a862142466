# docs/operation.md describes how to build, run and verify this image.
ARG BASE=python:3.11-slim

# Dependencies from the package index. Only a change of the lock files rebuilds this stage.
FROM ${BASE} AS dependencies
WORKDIR /build
# pip is in a separate environment, which is not shipped.
RUN python -m venv /opt/pip && python -m venv --without-pip /opt/polyseme
COPY containers/requirements.txt containers/build-requirements.txt ./
# Both secrets are optional: a pip.conf and a CA bundle for a private package index.
# hadolint ignore=DL3042
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.pem,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export PIP_CERT=/run/secrets/ca.pem; fi \
    && /opt/pip/bin/pip install --quiet --require-hashes --requirement build-requirements.txt \
    && /opt/pip/bin/pip --python /opt/polyseme/bin/python install \
       --quiet --no-compile --require-hashes --requirement requirements.txt
# Remove tests, C sources and type stubs (66 of 249 MB), which neither serving nor importing reads.
# Compile bytecode now, because the file system is read-only at run time. The bytecode is not checked
# against the sources, because an image may change their modification times.
RUN find /opt/polyseme -depth -type d \( -name tests -o -name test \) -exec rm -r {} + \
    && find /opt/polyseme -type f -regextype posix-extended \
       -regex '.*\.(a|c|cpp|h|hpp|pxd|pxi|pyi|pyx)' -delete \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/polyseme/lib

# The project with its bundled models; this stage needs no network.
FROM dependencies AS project
COPY pyproject.toml README.md LICENSE ./
COPY service service/
COPY models models/
RUN /opt/pip/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir wheel . \
    && /opt/pip/bin/pip --python /opt/polyseme/bin/python install \
       --quiet --no-deps --no-index --no-compile --prefix /project wheel/*.whl \
    && python -m compileall -q --invalidation-mode unchecked-hash \
       -s /project -p /opt/polyseme /project/lib
# The bill of materials of these packages and of the base image, which is the same in the last stage.
COPY containers/sbom.py ./
RUN PYTHONPATH=$(echo /project/lib/python3*/site-packages) && export PYTHONPATH \
    && /opt/pip/bin/cyclonedx-py environment -o environment.json /opt/polyseme/bin/python \
    && /opt/pip/bin/python sbom.py "$PYTHONPATH" <environment.json >/project/sbom.cdx.json

FROM ${BASE}
RUN groupadd --gid 10001 polyseme \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /tmp \
       --shell /usr/sbin/nologin polyseme \
    && install --directory --owner 10001 --group 10001 /models
COPY --from=dependencies /opt/polyseme /opt/polyseme
COPY --from=project /project /opt/polyseme
ENV PATH=/opt/polyseme/bin:$PATH
# The official base image has no bytecode of the standard library: run the programs once to write it.
RUN polyseme serve --help >/dev/null \
    && python -c 'import gunicorn.app.base, gunicorn.workers.gthread, http.client'

# One BLAS thread per worker: two make a request five times slower on two cores.
ENV OPENBLAS_NUM_THREADS=1 \
    OMP_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    POLYSEME_HOST=0.0.0.0 \
    POLYSEME_PORT=8000 \
    POLYSEME_MODELS_DIR=/models
EXPOSE 8000
USER 10001:10001
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-I", "-S", "-c", "import http.client, os, sys; \
         c = http.client.HTTPConnection('127.0.0.1', int(os.environ['POLYSEME_PORT']), timeout=4); \
         c.request('GET', '/readyz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["polyseme"]
CMD ["serve"]

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="polyseme" \
      org.opencontainers.image.description="Contextual word vectors, as a service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      io.polyseme.sbom="/opt/polyseme/sbom.cdx.json"
