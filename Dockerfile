# One image for every process of Soonish: `serve`, `work`, `migrate`, or all in one with `up`.
# The program is installed into a folder of its own, from the pinned and hashed requirements, and runs as nobody special.
FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements.lock ./
RUN python -m venv /opt/soonish \
    && /opt/soonish/bin/pip install --disable-pip-version-check --no-cache-dir --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/soonish/bin/pip install --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim
# The user has a name because PostgreSQL, which `up` starts, asks for one.
RUN useradd --system --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin soonish \
    && install --directory --owner soonish --group soonish --mode 700 /data
COPY --from=build /opt/soonish /opt/soonish
ENV PATH=/opt/soonish/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SOONISH_DATA_DIR=/data
USER soonish
EXPOSE 8787
ENTRYPOINT ["soonish"]
CMD ["serve"]
