"""Parquet: conversion of rows as they arrive into typed columns, and the part writer."""
