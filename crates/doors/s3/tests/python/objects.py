"""What boto3 does with objects: sys.argv[1] is the server."""

import base64
import hashlib
import sys
import urllib.request
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import boto3
from botocore.client import Config
from botocore.exceptions import ClientError

ENDPOINT = sys.argv[1]
s3 = boto3.client("s3", endpoint_url=ENDPOINT, config=Config(retries={"max_attempts": 1}, signature_version="s3v4"))


def refused(code, call, **arguments):
    """The call fails with this code."""
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, (code, error.response)
        return error.response
    raise AssertionError(f"{call} did not fail with {code}")


def buckets():
    assert s3.list_buckets()["Buckets"] == []
    s3.create_bucket(Bucket="runs")
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["runs"]
    refused("BucketAlreadyOwnedByYou", s3.create_bucket, Bucket="runs")
    refused("InvalidBucketName", s3.create_bucket, Bucket="Runs_A")
    refused("404", s3.head_bucket, Bucket="walks")
    refused("NoSuchBucket", s3.list_objects_v2, Bucket="walks")
    refused("NoSuchBucket", s3.put_object, Bucket="walks", Key="a", Body=b"1")
    assert s3.get_bucket_location(Bucket="runs")["LocationConstraint"] is None
    s3.create_bucket(Bucket="empty-one")
    s3.delete_bucket(Bucket="empty-one")
    refused("NoSuchBucket", s3.delete_bucket, Bucket="empty-one")
    refused("NotImplemented", s3.create_bucket, Bucket="public", ACL="public-read")


def bodies():
    for length in [0, 1, 4096, 300_000, (1 << 20), 3_000_001]:
        body = hashlib.shake_128(str(length).encode()).digest(length)
        put = s3.put_object(Bucket="runs", Key="a/b c+ü", Body=body)
        md5 = hashlib.md5(body).hexdigest()
        assert put["ETag"] == f'"{md5}"'
        # The SDK sends a CRC32 of its own accord, and compares it when it reads.
        crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
        assert put["ChecksumCRC32"] == crc and put["ChecksumType"] == "FULL_OBJECT"
        got = s3.get_object(Bucket="runs", Key="a/b c+ü", ChecksumMode="ENABLED")
        assert got["Body"].read() == body and got["ETag"] == put["ETag"] and got["ChecksumCRC32"] == crc
        head = s3.head_object(Bucket="runs", Key="a/b c+ü")
        assert head["ContentLength"] == length and head["ContentType"] == "binary/octet-stream"
        if length > 10:
            for range, part in [("bytes=2-5", body[2:6]), ("bytes=-7", body[-7:]), (f"bytes=3-{length * 2}", body[3:])]:
                got = s3.get_object(Bucket="runs", Key="a/b c+ü", Range=range)
                assert got["Body"].read() == part and got["ResponseMetadata"]["HTTPStatusCode"] == 206
            assert got["ContentRange"] == f"bytes 3-{length - 1}/{length}"
    refused("InvalidRange", s3.get_object, Bucket="runs", Key="a/b c+ü", Range="bytes=3000001-")
    for algorithm in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"]:
        s3.put_object(Bucket="runs", Key="sums", Body=b"sums", ChecksumAlgorithm=algorithm)
        assert s3.head_object(Bucket="runs", Key="sums", ChecksumMode="ENABLED")[f"Checksum{algorithm}"]
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    refused("BadDigest", s3.put_object, Bucket="runs", Key="wrong", Body=b"bytes", ContentMD5=wrong)
    refused("BadDigest", s3.put_object, Bucket="runs", Key="wrong", Body=b"bytes", ChecksumCRC32="AAAAAA==")
    refused("404", s3.head_object, Bucket="runs", Key="wrong")
    refused("NoSuchKey", s3.get_object, Bucket="runs", Key="wrong")
    refused("KeyTooLongError", s3.put_object, Bucket="runs", Key="k" * 1025, Body=b"")


def headers():
    given = dict(
        ContentType="text/plain", CacheControl="no-store", ContentDisposition="inline", ContentLanguage="de",
        ContentEncoding="identity", Metadata={"unit": "K", "name": "South"},
    )
    s3.put_object(Bucket="runs", Key="described", Body=b"1", Tagging="a=1&b=2", **given)
    for got in [s3.head_object(Bucket="runs", Key="described"), s3.get_object(Bucket="runs", Key="described")]:
        assert {name: got[name] for name in given} == given, got
    assert got["TagCount"] == 2
    got = s3.get_object(Bucket="runs", Key="described", ResponseContentType="text/html")
    assert got["ContentType"] == "text/html"
    refused("MetadataTooLarge", s3.put_object, Bucket="runs", Key="described", Body=b"", Metadata={"a": "b" * 2048})
    refused("NotImplemented", s3.put_object, Bucket="runs", Key="x", Body=b"", ServerSideEncryption="AES256")
    refused("NotImplemented", s3.put_object, Bucket="runs", Key="x", Body=b"", ACL="public-read")
    refused("InvalidStorageClass", s3.put_object, Bucket="runs", Key="x", Body=b"", StorageClass="GLACIER")
    refused("InvalidArgument", s3.put_object, Bucket="runs", Key="x", Body=b"", Metadata={"terrace-require": "speed"})
    s3.put_object(Bucket="runs", Key="wanted", Body=b"", Metadata={"terrace-require": "max_durability=2"})
    s3.put_object(Bucket="runs", Key="small", Body=b"", StorageClass="MIN_STORAGE")
    assert s3.head_object(Bucket="runs", Key="small")["StorageClass"] == "MIN_STORAGE"


def conditions():
    first = s3.put_object(Bucket="runs", Key="once", Body=b"first", IfNoneMatch="*")["ETag"]
    refused("PreconditionFailed", s3.put_object, Bucket="runs", Key="once", Body=b"second", IfNoneMatch="*")
    second = s3.put_object(Bucket="runs", Key="once", Body=b"second", IfMatch=first)["ETag"]
    refused("PreconditionFailed", s3.put_object, Bucket="runs", Key="once", Body=b"third", IfMatch=first)
    refused("NoSuchKey", s3.put_object, Bucket="runs", Key="never", Body=b"", IfMatch=first)
    past, future = (datetime.now(timezone.utc) + timedelta(hours=h) for h in [-1, 1])
    read = dict(Bucket="runs", Key="once")
    for call in [s3.get_object, s3.head_object]:
        call(**read, IfMatch=second, IfModifiedSince=past, IfUnmodifiedSince=future)
        refused("304", call, **read, IfNoneMatch=second)
        refused("304", call, **read, IfModifiedSince=future)
        for condition in [dict(IfMatch=first), dict(IfUnmodifiedSince=past)]:
            try:
                call(**read, **condition)
                raise AssertionError(condition)
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    # Of many that replace one version, one succeeds.
    def replace(number):
        try:
            s3.put_object(Bucket="runs", Key="once", Body=str(number).encode() * 300_000, IfMatch=second)
            return 1
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412), error.response
            return 0
    def create(number):
        try:
            s3.put_object(Bucket="runs", Key="new", Body=str(number).encode(), IfNoneMatch="*")
            return 1
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412), error.response
            return 0
    with ThreadPoolExecutor(8) as clients:
        assert sum(clients.map(replace, range(8))) == 1
        assert sum(clients.map(create, range(8))) == 1


def copies():
    s3.put_object(Bucket="runs", Key="from", Body=b"bytes" * 1000, ContentType="text/plain", Metadata={"a": "1"}, Tagging="t=1")
    source = dict(Bucket="runs", Key="from")
    copied = s3.copy_object(Bucket="runs", Key="to//ü", CopySource=source)["CopyObjectResult"]
    got = s3.get_object(Bucket="runs", Key="to//ü")
    assert got["Body"].read() == b"bytes" * 1000 and got["ETag"] == copied["ETag"]
    assert (got["ContentType"], got["Metadata"], got["TagCount"]) == ("text/plain", {"a": "1"}, 1)
    s3.copy_object(Bucket="runs", Key="to", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"})
    got = s3.get_object(Bucket="runs", Key="to")
    assert (got["ContentType"], got["Metadata"], got["TagCount"]) == ("binary/octet-stream", {"b": "2"}, 1)
    s3.copy_object(Bucket="runs", Key="to", CopySource=dict(Bucket="runs", Key="to"), MetadataDirective="REPLACE", Metadata={"c": "3"})
    assert s3.head_object(Bucket="runs", Key="to")["Metadata"] == {"c": "3"}
    refused("InvalidRequest", s3.copy_object, Bucket="runs", Key="to", CopySource=dict(Bucket="runs", Key="to"))
    refused("PreconditionFailed", s3.copy_object, Bucket="runs", Key="to", CopySource=source, CopySourceIfNoneMatch="*")
    refused("NoSuchKey", s3.copy_object, Bucket="runs", Key="to", CopySource=dict(Bucket="runs", Key="none"))
    refused("NoSuchBucket", s3.copy_object, Bucket="walks", Key="to", CopySource=source)


def lists():
    s3.create_bucket(Bucket="names")
    names = sorted(["a", "a/", "a/b", "a//c", "b/1", "b/2", "c+d e", "..", "ü", "<&>\x01", "z"] + [f"m/{n:04}" for n in range(1200)], key=lambda name: name.encode())
    with ThreadPoolExecutor(8) as clients:
        list(clients.map(lambda name: s3.put_object(Bucket="names", Key=name, Body=name.encode()), names))
    for version, size in [("list_objects", 1000), ("list_objects_v2", 1000), ("list_objects_v2", 7)]:
        pages = s3.get_paginator(version).paginate(Bucket="names", PaginationConfig=dict(PageSize=size))
        assert [found["Key"] for page in pages for found in page.get("Contents", [])] == names, version
    for version in ["list_objects", "list_objects_v2"]:
        for size in [1, 3, 1000]:
            found = []
            pages = s3.get_paginator(version).paginate(Bucket="names", Delimiter="/", PaginationConfig=dict(PageSize=size))
            for page in pages:
                both = [found["Key"] for found in page.get("Contents", [])] + [found["Prefix"] for found in page.get("CommonPrefixes", [])]
                assert len(both) <= size
                found += sorted(both, key=lambda name: name.encode())
            wanted = sorted({name if "/" not in name else name[: name.index("/") + 1] for name in names}, key=lambda name: name.encode())
            assert found == wanted, (version, size)
    page = s3.list_objects_v2(Bucket="names", Prefix="m/", StartAfter="m/1197", FetchOwner=True)
    assert [found["Key"] for found in page["Contents"]] == ["m/1198", "m/1199"] and not page["IsTruncated"]
    assert page["KeyCount"] == 2 and page["Contents"][0]["Owner"]["ID"] and page["Contents"][0]["Size"] == 6
    assert s3.list_objects_v2(Bucket="names", MaxKeys=0)["KeyCount"] == 0
    refused("InvalidArgument", s3.list_objects_v2, Bucket="names", ContinuationToken="?")
    assert [found["Key"] for found in s3.list_objects(Bucket="names", Marker="m/1198")["Contents"]][0] == "m/1199"
    refused("BucketNotEmpty", s3.delete_bucket, Bucket="names")
    # XML has no form for the byte 1.
    s3.delete_object(Bucket="names", Key="<&>\x01")
    names = [name if name != "<&>\x01" else "<&>" for name in names]
    for start in range(0, len(names), 1000):
        keys = [dict(Key=name) for name in names[start : start + 1000] + ["none"] * (start > 0)]
        assert len(s3.delete_objects(Bucket="names", Delete=dict(Objects=keys))["Deleted"]) == len(keys)
    s3.delete_object(Bucket="names", Key="none")
    assert s3.list_object_versions(Bucket="names").get("Versions", []) == []
    s3.delete_bucket(Bucket="names")


def tags():
    s3.put_object_tagging(Bucket="runs", Key="once", Tagging=dict(TagSet=[dict(Key="a&b", Value="ü 1")]))
    assert s3.get_object_tagging(Bucket="runs", Key="once")["TagSet"] == [dict(Key="a&b", Value="ü 1")]
    s3.delete_object_tagging(Bucket="runs", Key="once")
    assert s3.get_object_tagging(Bucket="runs", Key="once")["TagSet"] == []
    refused("NoSuchTagSet", s3.get_bucket_tagging, Bucket="runs")
    s3.put_bucket_tagging(Bucket="runs", Tagging=dict(TagSet=[dict(Key="a", Value="1")]))
    assert s3.get_bucket_tagging(Bucket="runs")["TagSet"] == [dict(Key="a", Value="1")]
    s3.delete_bucket_tagging(Bucket="runs")


def presigned():
    signed = s3.generate_presigned_url("put_object", Params=dict(Bucket="runs", Key="url"), ExpiresIn=60)
    request = urllib.request.Request(signed, data=b"by url", method="PUT")
    assert urllib.request.urlopen(request).status == 200
    signed = s3.generate_presigned_url("get_object", Params=dict(Bucket="runs", Key="url"), ExpiresIn=60)
    assert urllib.request.urlopen(signed).read() == b"by url"
    for wrong in [signed.replace("url?", "once?"), ENDPOINT + "/runs/url"]:
        try:
            urllib.request.urlopen(wrong)
            raise AssertionError(wrong)
        except urllib.error.HTTPError as error:
            assert error.code == 403, error
    # Who has the address of an upload must not copy what he cannot read.
    signed = s3.generate_presigned_url("put_object", Params=dict(Bucket="runs", Key="drop"), ExpiresIn=60)
    for header, value in [("x-amz-copy-source", "/runs/url"), ("x-amz-tagging", "a=b"), ("x-amz-meta-a", "b")]:
        try:
            urllib.request.urlopen(urllib.request.Request(signed, data=b"", method="PUT", headers={header: value}))
            raise AssertionError(header)
        except urllib.error.HTTPError as error:
            assert error.code == 403 and header.encode() in error.read(), error
    refused("404", s3.head_object, Bucket="runs", Key="drop")
    stranger = boto3.client("s3", endpoint_url=ENDPOINT, aws_access_key_id="nobody", aws_secret_access_key="0" * 16)
    refused("InvalidAccessKeyId", stranger.list_buckets)
    liar = boto3.client("s3", endpoint_url=ENDPOINT, aws_access_key_id="terrace", aws_secret_access_key="0" * 16)
    refused("SignatureDoesNotMatch", liar.list_buckets)


def others():
    assert "Status" not in s3.get_bucket_versioning(Bucket="runs")
    refused("NotImplemented", s3.put_bucket_versioning, Bucket="runs", VersioningConfiguration=dict(Status="Enabled"))
    refused("NotImplemented", s3.get_bucket_policy, Bucket="runs")
    refused("NoSuchVersion", s3.get_object, Bucket="runs", Key="once", VersionId="1")
    etag = s3.head_object(Bucket="runs", Key="once")["ETag"]
    refused("PreconditionFailed", s3.delete_object, Bucket="runs", Key="once", IfMatch='"other"')
    s3.delete_object(Bucket="runs", Key="once", IfMatch=etag)
    refused("404", s3.head_object, Bucket="runs", Key="once")


for part in [buckets, bodies, headers, conditions, copies, lists, tags, presigned, others]:
    part()
    print(part.__name__)
