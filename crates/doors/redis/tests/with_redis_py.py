"""Uses a server through redis-py. The argument is its socket."""

import sys
import threading

import redis

socket = sys.argv[1]

for protocol in (2, 3):
    r = redis.Redis(unix_socket_path=socket, protocol=protocol, decode_responses=True)
    r.flushall()
    assert r.set("a", "1", ex=100, nx=True) is True
    assert r.set("a", "2", nx=True) is None
    assert r.ttl("a") == 100
    assert r.incr("a", 41) == 42
    assert r.mget("a", "b") == ["42", None]
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1

    r.hset("hash", mapping={"x": "1", "y": "2"})
    assert r.hgetall("hash") == {"x": "1", "y": "2"}
    assert r.rpush("list", "a", "b", "c") == 3
    assert r.lrange("list", 0, -1) == ["a", "b", "c"]
    assert r.sadd("set", "m", "n") == 2
    assert r.smembers("set") == {"m", "n"}
    assert r.zadd("zset", {"low": 1, "high": 2.5}) == 2
    scores = r.zrange("zset", 0, -1, withscores=True)
    assert [tuple(pair) for pair in scores] == [("low", 1.0), ("high", 2.5)], scores

    assert sorted(r.scan_iter(match="*s*")) == ["bits", "hash", "list", "set", "zset"]
    assert r.type("zset") == "zset"

    with r.pipeline(transaction=True) as pipeline:
        pipeline.watch("a")
        pipeline.multi()
        pipeline.set("a", "50").incr("a")
        assert pipeline.execute() == [True, 51]
    with r.pipeline(transaction=True) as pipeline:
        pipeline.watch("a")
        r.set("a", "0")
        pipeline.multi()
        pipeline.incr("a")
        try:
            pipeline.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("a changed key was watched")

    with r.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.set(f"many:{number}", number)
        assert all(pipeline.execute())
    assert r.dbsize() == 1006
    lock = r.lock("lock", timeout=10)
    try:
        lock.acquire()
        lock.release()
    except redis.ResponseError as error:
        # Its release is a script.
        assert "unknown command" in str(error), error

    channel = r.pubsub(ignore_subscribe_messages=True)
    channel.subscribe("news")
    channel.psubscribe("n?ws")
    channel.get_message(timeout=5)
    heard = []

    def listen():
        while len(heard) < 2:
            message = channel.get_message(timeout=1)
            if message is not None:
                heard.append((message["type"], message["data"]))

    listener = threading.Thread(target=listen)
    listener.start()
    while r.publish("news", "hello") < 2:
        pass
    listener.join(60)
    assert sorted(heard[:2]) == [("message", "hello"), ("pmessage", "hello")], heard
    channel.close()

    waiting = redis.Redis(unix_socket_path=socket, protocol=protocol, decode_responses=True)
    results = []
    waiter = threading.Thread(target=lambda: results.append(waiting.blpop(["empty"], timeout=60)))
    waiter.start()
    r.rpush("empty", "now")
    waiter.join(60)
    assert [list(result) for result in results] == [["empty", "now"]], results
    r.set("from-python", "1")
