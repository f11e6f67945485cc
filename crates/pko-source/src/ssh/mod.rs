//! SSH, as far as git needs it: one command on a server whose key is known.
