"""Calls of the clients, toolkits and libraries that agents use: what acts is seen, reads are not."""

# ruff: noqa: E501 - rows, one a line

from __future__ import annotations

import pytest

from ratchet.wire import look
from tests.wire.look_alike import LONG, LookAlike

PYTHON = (
    # kind, what a function imports, what it calls
    ("mail", "import yagmail", "yagmail.SMTP('a').send('b', 'c', 'd')"),
    ("mail", "import aiosmtplib", "aiosmtplib.send(message)"),
    ("mail", "from sendgrid import SendGridAPIClient", "SendGridAPIClient('k').send(mail)"),
    ("mail", "from O365 import Account", "Account(()).new_message().send()"),
    ("mail", "import boto3", "boto3.client('ses').send_templated_email(Source='a')"),
    ("mail", "", "service.users().messages().batchDelete(userId='me', body={}).execute()"),
    ("mail", "import imaplib", "imaplib.IMAP4_SSL('h').append('Drafts', '', 0, text)"),
    ("post", "from slack_sdk import WebClient", "WebClient('t').reactions_add(name='eyes')"),
    ("post", "import discord", "discord.Client().get_channel(1).send('a')"),
    ("post", "import praw", "praw.Reddit('a').subreddit('b').submit('c')"),
    ("post", "from github import Github", "Github('k').get_repo('a').create_file('b', 'c', 'd')"),
    ("post", "import gitlab", "gitlab.Gitlab('u').projects.get(1).issues.create({'title': 'a'})"),
    ("post", "from jira import JIRA", "JIRA('u').transition_issue(issue, '31')"),
    ("post", "from notion_client import Client", "Client(auth='k').pages.create(parent={})"),
    ("post", "from pyairtable import Api", "Api('k').table('a', 'b').batch_create([])"),
    (
        "post",
        "import hubspot",
        "hubspot.Client.create(access_token='k').crm.contacts.basic_api.update(1)",
    ),
    ("post", "from simple_salesforce import Salesforce", "Salesforce('a').Contact.create({})"),
    ("post", "import gspread", "gspread.service_account().open('a').sheet1.append_row([])"),
    ("post", "", "service.spreadsheets().values().append(spreadsheetId='a', body={}).execute()"),
    ("post", "", "calendar.events().patch(calendarId='a', eventId='b', body={}).execute()"),
    ("post", "import dropbox", "dropbox.Dropbox('k').files_upload(b'a', '/b')"),
    ("post", "from trello import TrelloClient", "TrelloClient('k').get_list('a').add_card('b')"),
    ("post", "import boto3", "boto3.client('sqs').send_message(QueueUrl='a', MessageBody='b')"),
    (
        "post",
        "from google.cloud import pubsub_v1",
        "pubsub_v1.PublisherClient().publish('a', b'b')",
    ),
    (
        "post",
        "from google.cloud import storage",
        "storage.Client().bucket('a').blob('b').upload_from_filename('c')",
    ),
    ("post", "from kafka import KafkaProducer", "KafkaProducer().send('a', b'b')"),
    ("post", "import paho.mqtt.client as mqtt", "mqtt.Client().publish('a', 'b')"),
    ("post", "import urllib.request", "urllib.request.urlopen(url, data=b'a')"),
    ("post", "from kubernetes import client", "client.CoreV1Api().create_namespaced_pod('a', {})"),
    ("post", "from composio import ComposioToolSet", "ComposioToolSet().get_tools()"),
    ("post", "from phi.tools.slack import SlackTools", "SlackTools()"),
    ("post", "from agno.tools.github import GithubTools", "GithubTools()"),
    ("payment", "import ccxt", "ccxt.kraken().create_order('a', 'limit', 'buy', 1)"),
    (
        "payment",
        "from alpaca.trading.client import TradingClient",
        "TradingClient('k').close_position('a')",
    ),
    ("database write", "from sqlalchemy.orm import Session", "Session(engine).delete(row)"),
    ("database write", "", "db.commit()"),
    ("database write", "import sqlite3", "sqlite3.connect('a').commit()"),
    (
        "database write",
        "import sqlite3",
        "sqlite3.connect('a').execute('REPLACE INTO a VALUES (1)')",
    ),
    ("database write", "import redis", "redis.Redis().hset('a', 'b', 'c')"),
    (
        "database write",
        "from pymongo import MongoClient",
        "MongoClient('u').a.b.find_one_and_update({}, {})",
    ),
    (
        "database write",
        "from neo4j import GraphDatabase",
        "GraphDatabase.driver('u').session().run('MATCH (a) SET a.b = 1')",
    ),
    ("database write", "from neo4j import Session", "Session(None).run('CREATE (a:Book)')"),
    ("database write", "import duckdb", "duckdb.sql('CREATE TABLE a (b INT)')"),
    (
        "database write",
        "from qdrant_client import QdrantClient",
        "QdrantClient('u').upload_points('a', [])",
    ),
    ("database write", "import lancedb", "lancedb.connect('a').create_table('b', data=[])"),
    ("database write", "from pymilvus import MilvusClient", "MilvusClient('a').insert('b', [])"),
    ("database write", "", "table.update_item(Key={'a': 1})"),
    ("database write", "", "User.objects.filter(id=1).update(name='a')"),
    (
        "database write",
        "from langchain_community.agent_toolkits import SQLDatabaseToolkit",
        "SQLDatabaseToolkit(db=db, llm=llm)",
    ),
    ("file write", "", "Path('a').open('w')"),
    ("file write", "import aiofiles", "aiofiles.open('a', 'wb')"),
    ("file write", "import zipfile", "zipfile.ZipFile('a.zip', 'w')"),
    ("file write", "import cv2", "cv2.imwrite('a.png', image)"),
    ("file write", "", "figure.write_html('a.html')"),
    ("file write", "from fpdf import FPDF", "FPDF().output('a.pdf')"),
    ("file write", "import git", "git.Repo('.').index.commit('a')"),
    ("file write", "from phi.tools.file import FileTools", "FileTools()"),
    ("delete", "import os", "os.removedirs('a')"),
    ("shell", "import pexpect", "pexpect.spawn('ls')"),
    ("shell", "import os", "os.startfile('a')"),
    ("shell", "import docker", "docker.from_env().containers.get('a').exec_run('ls')"),
    (
        "shell",
        "from claude_agent_sdk import ClaudeAgentOptions",
        "ClaudeAgentOptions(allowed_tools=['Read', 'Bash'])",
    ),
    (
        "exec",
        "from autogen import UserProxyAgent",
        "UserProxyAgent('a', code_execution_config={'work_dir': 'b'})",
    ),
    (
        "exec",
        "from autogen_ext.tools.code_execution import PythonCodeExecutionTool",
        "PythonCodeExecutionTool(executor)",
    ),
    ("exec", "from crewai import Agent", "Agent(role='a', allow_code_execution=True)"),
    ("exec", "from smolagents import CodeAgent", "CodeAgent(tools=[], model=model)"),
    ("exec", "from agno.tools.python import PythonTools", "PythonTools()"),
    (
        "exec",
        "from langchain_experimental.agents import create_pandas_dataframe_agent",
        "create_pandas_dataframe_agent(llm, frame)",
    ),
    ("desktop", "from agents import ComputerTool", "ComputerTool(computer)"),
    ("desktop", "from playwright.sync_api import Page", "page.set_input_files('#a', 'b')"),
)
READS = (
    # what a function imports, what it calls
    ("from github import Github", "Github('k').get_repo('a').get_issues()"),
    ("import hubspot", "hubspot.Client.create(access_token='k')"),
    ("import boto3", "boto3.client('s3').get_object(Bucket='a')"),
    ("import boto3", "boto3.client('bedrock-runtime').invoke_model(body='a')"),
    (
        "from notion_client import Client",
        "Client(auth='k').search(query='a').get('results').append(1)",
    ),
    ("from slack_sdk import WebClient", "WebClient('t').conversations_history(channel='a')"),
    ("from sqlalchemy import update", "update(User)"),
    ("import discord", "discord.Client().add_listener(on_ready)"),
    ("from sqlalchemy import select", "session.execute(select(User).where(User.id == 1))"),
    ("from sqlalchemy.ext.asyncio import create_async_engine", "create_async_engine('u')"),
    ("import gradio", "gradio.Button('a').click(answer)"),
    ("", "desk.run('Create a list of the books that were returned today')"),
    ("from autogen import UserProxyAgent", "UserProxyAgent('a', code_execution_config=False)"),
    ("", "{}.update({'a': 1})"),
    ("", "seen.add(1)"),
    ("", "Path('a').open('r')"),
    ("", "calendar.events().list(calendarId='a').execute()"),
    (
        "from claude_agent_sdk import ClaudeAgentOptions",
        "ClaudeAgentOptions(allowed_tools=['Read'])",
    ),
    ("from smolagents import ToolCallingAgent", "ToolCallingAgent(tools=[], model=model)"),
    ("from agno.tools.yfinance import YFinanceTools", "YFinanceTools()"),
)
JAVASCRIPT = (
    ("mail", "import { Resend } from 'resend'", "new Resend('k').emails.send({})"),
    ("post", "import { WebClient } from '@slack/web-api'", "new WebClient('t').reactions.add({})"),
    ("post", "import { Octokit } from '@octokit/rest'", "new Octokit({}).rest.pulls.create({})"),
    ("post", "import { LinearClient } from '@linear/sdk'", "new LinearClient({}).createIssue({})"),
    ("post", "import { Client } from '@notionhq/client'", "new Client({}).pages.update({})"),
    ("post", "import Browser from '@browserbasehq/sdk'", "new Browser({}).sessions.create({})"),
    ("post", "import axios from 'axios'", "axios({ method: 'put', url: 'u' })"),
    ("post", "import got from 'got'", "got.post('u')"),
    ("post", "", "const options = { method: 'POST' };\n  fetch('u', options)"),
    ("post", "import { experimental_createMCPClient } from 'ai'", "new MCPClient({})"),
    ("payment", "import { ethers } from 'ethers'", "new ethers.Wallet('k').sendTransaction({})"),
    ("database write", "import { createClient } from 'redis'", "createClient({}).set('a', 'b')"),
    ("database write", "import mongoose from 'mongoose'", "User.findByIdAndUpdate('a', {})"),
    ("database write", "import { kv } from '@vercel/kv'", "kv.set('a', 'b')"),
    ("database write", "import { addDoc } from 'firebase/firestore'", "addDoc(users, {})"),
    ("file write", "import * as fs from 'fs/promises'", "fs.rename('a', 'b')"),
    ("file write", "", "Bun.write('a', 'b')"),
    ("shell", "import { spawn } from 'child_process'", "spawn('ls')"),
    ("exec", "import { Sandbox } from '@e2b/code-interpreter'", "box.runCode('a')"),
    ("exec", "import vm from 'node:vm'", "vm.runInContext('a', context)"),
    ("desktop", "import { Stagehand } from '@browserbasehq/stagehand'", "page.act('a')"),
)
JAVASCRIPT_READS = (
    ("import { Octokit } from '@octokit/rest'", "new Octokit({}).rest.pulls.list({})"),
    ("import { createClient } from '@supabase/supabase-js'", "createClient('u', 'k')"),
    ("import { Client } from '@notionhq/client'", "new Client({}).databases.query({})"),
    ("", "new Set().add(1)"),
    ("", "fetch('u', { headers: {} })"),
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Kinds of effects that act, by the row's own file; all rows stand in one repository."""
    files = {
        "agent.py": "from openai import OpenAI\nimport rows\n"
        f"OpenAI().chat.completions.create(messages=[{{'role': 'system', 'content': '{LONG}'}}])\n",
        "rows/__init__.py": "",
    }
    given = [*PYTHON, *(("", *one) for one in READS)]
    for number, (_, imported, called) in enumerate(given):
        files[f"rows/p{number}.py"] = f"import openai\n{imported}\ndef go():\n    {called}\n"
    scripts = [*JAVASCRIPT, *(("", *one) for one in JAVASCRIPT_READS)]
    for number, (_, imported, called) in enumerate(scripts):
        files[f"rows/j{number}.ts"] = (
            f"import OpenAI from 'openai';\n{imported};\nexport async function go() {{\n  {called};\n}}\n"
        )
    found = look(LookAlike("rows", files, "", "", ()).write(tmp_path_factory.mktemp("rows")))
    kinds: dict[str, set[str]] = {}
    for one in found.side_effects:
        if one.acts:
            kinds.setdefault(one.place.path, set()).add(one.kind)
    return kinds


@pytest.mark.parametrize("number", range(len(PYTHON)), ids=lambda n: PYTHON[n][2])
def test_what_acts_in_python_is_seen(seen: dict[str, set[str]], number: int) -> None:
    assert PYTHON[number][0] in seen.get(f"rows/p{number}.py", set())


@pytest.mark.parametrize("number", range(len(READS)), ids=lambda n: READS[n][1])
def test_what_reads_in_python_does_not_act(seen: dict[str, set[str]], number: int) -> None:
    assert f"rows/p{len(PYTHON) + number}.py" not in seen


@pytest.mark.parametrize("number", range(len(JAVASCRIPT)), ids=lambda n: JAVASCRIPT[n][2])
def test_what_acts_in_javascript_is_seen(seen: dict[str, set[str]], number: int) -> None:
    assert JAVASCRIPT[number][0] in seen.get(f"rows/j{number}.ts", set())


@pytest.mark.parametrize(
    "number", range(len(JAVASCRIPT_READS)), ids=lambda n: JAVASCRIPT_READS[n][1]
)
def test_what_reads_in_javascript_does_not_act(seen: dict[str, set[str]], number: int) -> None:
    assert f"rows/j{len(JAVASCRIPT) + number}.ts" not in seen
