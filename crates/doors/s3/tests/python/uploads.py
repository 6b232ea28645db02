"""What boto3 does with uploads of several parts: sys.argv[1] is the server."""

import hashlib
import io
import sys

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.client import Config
from botocore.exceptions import ClientError

s3 = boto3.client("s3", endpoint_url=sys.argv[1], config=Config(retries={"max_attempts": 1}))
MIB = 1 << 20


def refused(code, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, (code, error.response)
        return
    raise AssertionError(f"{call} did not fail with {code}")


def bytes_of(seed, length):
    return hashlib.shake_128(str(seed).encode()).digest(length)


def transfers():
    body = bytes_of(1, 23 * MIB + 7)
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB)
    s3.upload_fileobj(io.BytesIO(body), "runs", "long", Config=config, ExtraArgs=dict(ContentType="text/plain"))
    head = s3.head_object(Bucket="runs", Key="long", ChecksumMode="ENABLED")
    assert head["ContentLength"] == len(body) and head["ContentType"] == "text/plain"
    assert head["ETag"].endswith('-3"') and head["ChecksumCRC32"].endswith("-3") and head["ChecksumType"] == "COMPOSITE"
    got = io.BytesIO()
    s3.download_fileobj("runs", "long", got, Config=config)
    assert got.getvalue() == body
    part = s3.get_object(Bucket="runs", Key="long", PartNumber=3)
    assert part["Body"].read() == body[16 * MIB :] and part["PartsCount"] == 3
    refused("InvalidPartNumber", s3.get_object, Bucket="runs", Key="long", PartNumber=4)
    s3.copy(dict(Bucket="runs", Key="long"), "runs", "longer", Config=config)
    assert s3.get_object(Bucket="runs", Key="longer")["Body"].read() == body


def steps():
    name = dict(Bucket="runs", Key="steps")
    upload = s3.create_multipart_upload(**name, Metadata={"a": "1"})["UploadId"]
    other = s3.create_multipart_upload(Bucket="runs", Key="d/other")["UploadId"]
    assert [found["UploadId"] for found in s3.list_multipart_uploads(Bucket="runs")["Uploads"]] == [other, upload]
    page = s3.list_multipart_uploads(Bucket="runs", MaxUploads=1)
    assert page["IsTruncated"] and page["NextKeyMarker"] == "d/other"
    page = s3.list_multipart_uploads(Bucket="runs", KeyMarker="d/other", UploadIdMarker=page["NextUploadIdMarker"])
    assert [found["Key"] for found in page["Uploads"]] == ["steps"]
    assert s3.list_multipart_uploads(Bucket="runs", Delimiter="/")["CommonPrefixes"] == [dict(Prefix="d/")]
    refused("NoSuchUpload", s3.upload_part, Bucket="runs", Key="else", UploadId=upload, PartNumber=1, Body=b"")
    refused("NoSuchUpload", s3.upload_part, **name, UploadId="none", PartNumber=1, Body=b"")
    refused("InvalidArgument", s3.upload_part, **name, UploadId=upload, PartNumber=10_001, Body=b"")
    refused("404", s3.head_object, **name)
    bodies = {7: bytes_of(7, 6 * MIB), 2: bytes_of(2, 5 * MIB), 9: b"last"}
    etags = {number: s3.upload_part(**name, UploadId=upload, PartNumber=number, Body=body)["ETag"] for number, body in bodies.items()}
    listed = s3.list_parts(**name, UploadId=upload, MaxParts=2)
    assert [part["PartNumber"] for part in listed["Parts"]] == [2, 7] and listed["IsTruncated"]
    listed = s3.list_parts(**name, UploadId=upload, PartNumberMarker=listed["NextPartNumberMarker"])
    assert [(part["PartNumber"], part["Size"]) for part in listed["Parts"]] == [(9, 4)]
    parts = [dict(PartNumber=number, ETag=etags[number]) for number in sorted(bodies)]
    complete = lambda parts, **more: s3.complete_multipart_upload(**name, UploadId=upload, MultipartUpload=dict(Parts=parts), **more)
    refused("InvalidPartOrder", complete, parts=parts[::-1])
    refused("InvalidPart", complete, parts=[dict(PartNumber=3, ETag=etags[2])])
    refused("InvalidPart", complete, parts=[dict(PartNumber=2, ETag=etags[7])])
    refused("MalformedXML", complete, parts=[])
    refused("InvalidRequest", complete, parts=parts, MpuObjectSize=1)
    done = complete(parts)
    md5 = hashlib.md5(b"".join(hashlib.md5(bodies[number]).digest() for number in sorted(bodies))).hexdigest()
    assert done["ETag"] == f'"{md5}-3"'
    got = s3.get_object(**name)
    assert got["Body"].read() == b"".join(bodies[number] for number in sorted(bodies)) and got["Metadata"] == {"a": "1"}
    # The answer may have been lost.
    assert complete(parts)["ETag"] == done["ETag"]
    s3.abort_multipart_upload(Bucket="runs", Key="d/other", UploadId=other)
    refused("NoSuchUpload", s3.abort_multipart_upload, Bucket="runs", Key="d/other", UploadId=other)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="runs")
    upload = s3.create_multipart_upload(**name)["UploadId"]
    first = s3.upload_part(**name, UploadId=upload, PartNumber=1, Body=b"short")["ETag"]
    second = s3.upload_part(**name, UploadId=upload, PartNumber=2, Body=b"last")["ETag"]
    both = [dict(PartNumber=1, ETag=first), dict(PartNumber=2, ETag=second)]
    refused("EntityTooSmall", s3.complete_multipart_upload, **name, UploadId=upload, MultipartUpload=dict(Parts=both))
    refused("PreconditionFailed", s3.complete_multipart_upload, **name, UploadId=upload, MultipartUpload=dict(Parts=both[1:]), IfNoneMatch="*")
    copied = s3.upload_part_copy(**name, UploadId=upload, PartNumber=1, CopySource=dict(Bucket="runs", Key="long"), CopySourceRange=f"bytes=1-{5 * MIB}")
    both[0]["ETag"] = copied["CopyPartResult"]["ETag"]
    s3.complete_multipart_upload(**name, UploadId=upload, MultipartUpload=dict(Parts=both), IfMatch=done["ETag"])
    assert s3.get_object(**name)["Body"].read() == bytes_of(1, 23 * MIB + 7)[1 : 5 * MIB + 1] + b"last"


def checksums():
    name = dict(Bucket="runs", Key="sums")
    bodies = [bytes_of(1, 5 * MIB), b"the rest"]
    sums = {}
    for way, algorithm in [("FULL_OBJECT", "CRC32"), ("COMPOSITE", "SHA256")]:
        upload = s3.create_multipart_upload(**name, ChecksumAlgorithm=algorithm, ChecksumType=way)["UploadId"]
        parts = []
        for number, body in enumerate(bodies, 1):
            put = s3.upload_part(**name, UploadId=upload, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
            parts.append({"PartNumber": number, "ETag": put["ETag"], f"Checksum{algorithm}": put[f"Checksum{algorithm}"]})
        wrong = [parts[0], {**parts[1], f"Checksum{algorithm}": parts[0][f"Checksum{algorithm}"]}]
        complete = dict(**name, UploadId=upload)
        refused("InvalidPart", s3.complete_multipart_upload, **complete, MultipartUpload=dict(Parts=wrong))
        done = s3.complete_multipart_upload(**complete, MultipartUpload=dict(Parts=parts))
        sums[algorithm] = done[f"Checksum{algorithm}"]
        assert done["ChecksumType"] == way
    whole = s3.put_object(Bucket="runs", Key="whole", Body=b"".join(bodies), ChecksumAlgorithm="CRC32")
    assert sums["CRC32"] == whole["ChecksumCRC32"] and sums["SHA256"].endswith("-2")


def removed_bucket():
    s3.create_bucket(Bucket="going")
    upload = s3.create_multipart_upload(Bucket="going", Key="a")["UploadId"]
    s3.upload_part(Bucket="going", Key="a", UploadId=upload, PartNumber=1, Body=b"1")
    s3.delete_bucket(Bucket="going")
    refused("NoSuchBucket", s3.list_parts, Bucket="going", Key="a", UploadId=upload)


s3.create_bucket(Bucket="runs")
for part in [transfers, steps, checksums, removed_bucket]:
    part()
    print(part.__name__)
