"""Uses a server through pymemcache. The argument is its port."""

import sys
import threading

from pymemcache import Client, HashClient, MemcacheClientError, MemcacheIllegalInputError, PooledClient, serde

address = ("127.0.0.1", int(sys.argv[1]))


class Counted:
    def __init__(self, count):
        self.count = count

    def __eq__(self, other):
        return self.count == other.count


for make in (Client, PooledClient, lambda server, **options: HashClient([server], **options)):
    for noreply in (False, True):
        c = make(address, default_noreply=noreply, serde=serde.pickle_serde)
        c.flush_all(noreply=False)
        assert c.get("a") is None and c.get("a", "default") == "default"
        # The kind of a value is in its flags.
        for value in ("text", b"bytes", 7, 1 << 40, {"a": [1, 2]}, Counted(3), ""):
            assert c.set("a", value) and c.get("a") == value, value
        assert c.set_many({f"key{n}": n for n in range(500)}, expire=1000) == []
        found = c.get_many([f"key{n}" for n in range(600)])
        assert found == {f"key{n}": n for n in range(500)}
        assert c.delete_many([f"key{n}" for n in range(400)]) and len(c.get_many(found)) == 100
        assert c.add("key1", "new", noreply=False) is True and c.add("key1", "newer", noreply=False) is False
        assert c.replace("nothing", "x", noreply=False) is False and c.replace("key1", "y", noreply=False) is True
        assert c.get("key1") == "y"

c = Client(address, default_noreply=False)
c.set("n", "10")
assert c.incr("n", 5) == 15 and c.decr("n", 100) == 0 and c.incr("nothing", 1) is None
try:
    c.set("text", "x")
    c.incr("text", 1)
    raise AssertionError("a text has grown")
except MemcacheClientError:
    pass
assert c.append("text", "y") and c.prepend("text", "w") and c.get("text") == b"wxy"
assert c.append("nothing", "y") is False
assert c.touch("text", 100) is True and c.touch("nothing", 100) is False
assert c.raw_command(b"gat 100 text", b"END\r\n") == b"VALUE text 0 3\r\nwxy\r\n"
value, unique = c.gets("text")
assert c.cas("text", "first", unique) is True and c.cas("text", "second", unique) is False
assert c.cas("nothing", "x", unique) is None
value, unique = c.gets("text")
assert value == b"first" and c.gets_many(["text"])["text"] == (value, unique)
assert c.set("text", "over", expire=-1) and c.get("text") is None
assert c.version().startswith(b"1.") and c.stats()[b"get_hits"] > 0
try:
    c.set("k" * 251, "x")
    raise AssertionError("a long key was sent")
except MemcacheIllegalInputError:
    pass

# Increments by compare and swap of several clients: none is lost.
c.set("sum", "0")


def add_ones():
    mine = Client(address, default_noreply=False)
    for _ in range(20):
        while True:
            value, unique = mine.gets("sum")
            if mine.cas("sum", str(int(value) + 1), unique):
                break


threads = [threading.Thread(target=add_ones) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert c.get("sum") == b"80", c.get("sum")
assert c.flush_all() and c.get("sum") is None
