/** A store as a file system of Hadoop, and so of Spark and of others that use Hadoop's. */
package io.terrace.hadoop;
