# docker build -t ppdinf . && docker run --rm -v "$PWD/ppdinf-demo:/results" ppdinf
FROM python:3.13-slim
ENV NUMBA_CACHE_DIR=/cache/numba PYTENSOR_FLAGS=base_compiledir=/cache/pytensor
COPY . /source
RUN pip install --no-cache-dir "/source[sign]" && ppdinf doctor
WORKDIR /results
ENTRYPOINT ["ppdinf"]
CMD ["demo", "--output", "/results"]
