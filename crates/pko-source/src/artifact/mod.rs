//! Artifacts: a gzipped tar file behind a URL, known by its digest, as Flux and Programs serve them.
