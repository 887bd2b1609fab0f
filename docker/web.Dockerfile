# The web server. Build from the repository root: docker build -f docker/web.Dockerfile .
FROM python:3.12-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements/base.txt ./
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes -r base.txt

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --home-dir /srv/studio --shell /usr/sbin/nologin studio \
    && install -d -o studio -g studio /srv/studio /var/lib/studio /srv/static
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1 \
    DJANGO_SETTINGS_MODULE=rftstudio.settings.production \
    STUDIO_VAR_DIR=/var/lib/studio \
    STUDIO_STATIC_ROOT=/srv/static
WORKDIR /srv/studio
COPY --from=build /opt/venv /opt/venv
COPY --chown=studio:studio . .
USER 10001
# The static files are part of the image. Collecting them needs settings to load, not to work: nothing here is kept.
RUN SECRET_KEY=build DATABASE_URL=postgres://build@build/build CELERY_BROKER_URL=redis://build \
    python manage.py collectstatic --noinput
VOLUME /var/lib/studio
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=6s --start-period=30s CMD ["python", "docker/healthcheck.py"]
CMD ["gunicorn", "--config", "docker/gunicorn_conf.py", "rftstudio.wsgi:application"]
