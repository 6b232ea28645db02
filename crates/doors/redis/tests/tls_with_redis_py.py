"""Uses a server by TLS through redis-py. The arguments are its port, its authority and the password."""

import sys
import threading

import redis

port, authority, password = sys.argv[1:]


def connect(**options):
    options = {"password": password, "ssl_ca_certs": authority, **options}
    return redis.Redis(host="localhost", port=int(port), ssl=True, **options)


for protocol in (2, 3):
    r = connect(protocol=protocol)
    assert r.set("a", "1") and r.get("a") == b"1"
    # More than a message of TLS, and more than the buffers of the system.
    for length in (1, 16 << 10, (16 << 10) + 1, 1 << 20, 40 << 20):
        value = bytes(range(256)) * (length // 256 + 1)
        assert r.set("long", value) and r.get("long") == value, length
    with r.pipeline(transaction=False) as pipeline:
        for number in range(5000):
            pipeline.set(f"key{number % 100}", "x" * number).get(f"key{number % 100}")
        replies = pipeline.execute()
    assert replies[1::2] == [b"x" * number for number in range(5000)]
    heard = r.pubsub()
    heard.subscribe("news")
    assert heard.get_message(timeout=10)["type"] == "subscribe"
    r.publish("news", "hello")
    assert heard.get_message(timeout=10)["data"] == b"hello"
    heard.close()


def count():
    mine = connect()
    for _ in range(200):
        mine.incr("count")


r = connect()
r.delete("count")
threads = [threading.Thread(target=count) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert r.get("count") == b"1600"

for wrong in ({"password": "another password"}, {"password": None}):
    try:
        connect(**wrong).get("a")
        raise AssertionError(f"{wrong} was accepted")
    except redis.AuthenticationError:
        pass
