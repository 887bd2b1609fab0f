# Celery workers and beat. Build from the repository root: docker build -f docker/worker.Dockerfile .
FROM python:3.12-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements/base.txt ./
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes -r base.txt

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --home-dir /srv/studio --shell /usr/sbin/nologin studio \
    && install -d -o studio -g studio /srv/studio /var/lib/studio
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1 \
    DJANGO_SETTINGS_MODULE=rftstudio.settings.production \
    STUDIO_VAR_DIR=/var/lib/studio
WORKDIR /srv/studio
COPY --from=build /opt/venv /opt/venv
COPY --chown=studio:studio . .
USER 10001
VOLUME /var/lib/studio
CMD ["celery", "--app", "rftstudio", "worker", "--queues", "default", "--concurrency", "2", "--loglevel", "INFO"]
