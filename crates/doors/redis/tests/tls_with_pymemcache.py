"""Uses a server by TLS through pymemcache. The arguments are its port, its authority and the password."""

import ssl
import sys

from pymemcache import Client, MemcacheClientError

port, authority, password = sys.argv[1:]
context = ssl.create_default_context(cafile=authority)
c = Client(("localhost", int(port)), tls_context=context, default_noreply=False)
try:
    c.get("a")
    raise AssertionError("a client without the password was served")
except MemcacheClientError:
    pass
c = Client(("localhost", int(port)), tls_context=context, default_noreply=False)
assert c.set("auth", f"default {password}") is True
value = bytes(range(256)) * 4096
assert c.set("a", value) and c.get("a") == value
