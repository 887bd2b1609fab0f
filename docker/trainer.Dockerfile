# The worker of the training queue, with torch and TRL for the trainer process that it starts.
# Build from the repository root: docker build -f docker/trainer.Dockerfile .
# TORCH_PIP_ARGS chooses torch's build, for instance an --index-url with the CUDA version of the host.
FROM python:3.12-slim AS build
ARG TORCH_PIP_ARGS=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements/base.txt requirements/train.txt ./
# TORCH_PIP_ARGS is a list of words, so it stays unquoted.
# hadolint ignore=SC2086
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install torch==2.13.0 ${TORCH_PIP_ARGS} \
    && /opt/venv/bin/pip install --require-hashes -r base.txt \
    && /opt/venv/bin/pip install --require-hashes --no-deps -r train.txt

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --home-dir /srv/studio --shell /usr/sbin/nologin studio \
    && install -d -o studio -g studio /srv/studio /var/lib/studio
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_HOME=/var/lib/studio/hub \
    DJANGO_SETTINGS_MODULE=rftstudio.settings.production \
    STUDIO_VAR_DIR=/var/lib/studio
WORKDIR /srv/studio
COPY --from=build /opt/venv /opt/venv
COPY --chown=studio:studio . .
USER 10001
VOLUME /var/lib/studio
CMD ["celery", "--app", "rftstudio", "worker", "--queues", "training", "--concurrency", "1", "--loglevel", "INFO"]
