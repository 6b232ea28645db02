/**
 * Terrace: replicas of your data on the tiers that you have.
 *
 * <p>{@link io.terrace.Store} is an open store. Its objects have keys, which are paths such as {@code runs/a}.
 */
package io.terrace;
